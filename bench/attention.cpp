// Attention on one thread, as a share of the multiply-add peak that is measured beside it.
//
// Every iteration measures the peak and runs the kernel, both by this thread's CPU time; the
// counters are medians over the iterations:
//   gflops      4 * heads * pairs of (query, key) that are seen * dim, per second
//   peak        of the instruction the kernel is made of
//   percent     gflops of peak; p10 and p90 are its spread
// Decode rows count bytes of K and V instead, against one thread's read bandwidth; tiny rows all
// bytes, against a thread that reads five bytes for each that it writes, as they do, and against
// the C library's copy, which writes as many as it reads.
#include <benchmark/benchmark.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bench/peak.h"
#include "bench/tensors.h"
#include "hipflash/attention.h"
#include "platform/cpu/isa.h"

namespace hipflash::bench {
namespace {

Context& context(const std::string& isa) {
  static std::map<std::string, std::unique_ptr<Context>> contexts;
  auto& made = contexts[isa];
  if (!made) {
    ContextOptions options;
    options.cpu_isa = isa;
    options.threads = 1;
    made = std::make_unique<Context>(DeviceId{}, options);
  }
  return *made;
}

struct Shape {
  std::int64_t heads, seq_q, seq_k, dim;
  bool causal;
};

void attention(benchmark::State& state, const std::string& isa, DType dtype, const Shape& s) {
  const RandomTensor q(dtype, 1, s.heads, s.seq_q, s.dim, 1),
      k(dtype, 1, s.heads, s.seq_k, s.dim, 2), v(dtype, 1, s.heads, s.seq_k, s.dim, 3),
      out(dtype, 1, s.heads, s.seq_q, s.dim, 4);
  AttentionOptions options;
  options.causal = s.causal;
  const Plan plan =
      context(isa).plan(make_problem(q.view(), k.view(), v.view(), out.view(), options));
  const TensorPointers pointers = make_pointers(q.view(), k.view(), v.view(), out.view(), options);
  const std::string serving =
      cpu_isa_facts(platform::isa_for(platform::choose_isa(isa), static_cast<ElementType>(dtype)))
          .name;
  const double pairs = static_cast<double>(s.seq_q) * static_cast<double>(s.seq_k);
  const double flops = 4.0 * static_cast<double>(s.heads * s.dim) *
                       (s.causal ? pairs / 2 + static_cast<double>(s.seq_q) / 2 : pairs);
  plan.run(pointers);
  std::vector<double> seconds, peaks, percents;
  for (auto iteration : state) {
    (void)iteration;
    const double peak = peak_gflops(serving);
    const double start = thread_seconds();
    plan.run(pointers);
    const double time = thread_seconds() - start;
    state.SetIterationTime(time);
    seconds.push_back(time);
    peaks.push_back(peak);
    if (peak > 0) percents.push_back(100.0 * flops / time * 1e-9 / peak);
  }
  state.counters["gflops"] = flops / quantile(seconds, 0.5) * 1e-9;
  if (percents.empty()) return;
  state.counters["peak"] = quantile(peaks, 0.5);
  state.counters["percent"] = quantile(percents, 0.5);
  state.counters["p10"] = quantile(percents, 0.1);
  state.counters["p90"] = quantile(percents, 0.9);
}

// `side_by_side`: the heads of a token, else the tokens of a head.
void decode(benchmark::State& state, DType dtype, std::int64_t seq_k, bool side_by_side) {
  constexpr std::int64_t kHeads = 32, kHeadsKv = 8, kDim = 128;
  const RandomTensor q(dtype, 1, kHeads, 1, kDim, 1), keys(dtype, 1, kHeadsKv, seq_k, kDim, 2),
      values(dtype, 1, kHeadsKv, seq_k, kDim, 3), out(dtype, 1, kHeads, 1, kDim, 4);
  const auto placed = [&](const RandomTensor& tensor) {
    return side_by_side ? Tensor::bshd(tensor.view().data, dtype, 1, seq_k, kHeadsKv, kDim)
                        : tensor.view();
  };
  const Tensor k = placed(keys), v = placed(values);
  const Plan plan = context("auto").plan(make_problem(q.view(), k, v, out.view()));
  const TensorPointers pointers = make_pointers(q.view(), k, v, out.view());
  const double bytes =
      2.0 * static_cast<double>(kHeadsKv * seq_k * kDim) * static_cast<double>(size_of(dtype));
  const std::vector<float> large(std::size_t{48} << 20, 1.0f);
  std::vector<double> percents;
  for (auto iteration : state) {
    (void)iteration;
    const double bandwidth = read_gigabytes_per_second(large);
    const double start = thread_seconds();
    plan.run(pointers);
    const double time = thread_seconds() - start;
    state.SetIterationTime(time);
    percents.push_back(100.0 * bytes / time * 1e-9 / bandwidth);
  }
  state.counters["percent_of_read"] = quantile(percents, 0.5);
  state.counters["p10"] = quantile(percents, 0.1);
  state.counters["p90"] = quantile(percents, 0.9);
}

// One query and two keys of thousands of batch entries: memory's time. Each byte counts once; a
// copy reads and writes each of its bytes.
void tiny(benchmark::State& state, DType dtype, std::int64_t batch, std::int64_t heads,
          std::int64_t dim) {
  const RandomTensor q(dtype, batch, heads, 1, dim, 1), k(dtype, batch, heads, 2, dim, 2),
      v(dtype, batch, heads, 2, dim, 3), out(dtype, batch, heads, 1, dim, 4);
  const Plan plan = context("auto").plan(make_problem(q.view(), k.view(), v.view(), out.view()));
  const TensorPointers pointers = make_pointers(q.view(), k.view(), v.view(), out.view());
  const double bytes =
      6.0 * static_cast<double>(batch * heads * dim) * static_cast<double>(size_of(dtype));
  const std::vector<float> from(std::size_t{48} << 20, 1.0f);
  const RandomTensor target(DType::f32, 1, 1, static_cast<std::int64_t>(from.size()) / 64, 64, 5);
  auto* const to = static_cast<float*>(target.view().data);
  std::vector<double> of_mix, of_copy;
  for (auto iteration : state) {
    (void)iteration;
    double start = thread_seconds();
    std::memcpy(to, from.data(), from.size() * sizeof(float));
    benchmark::DoNotOptimize(to);
    benchmark::ClobberMemory();
    const double copy =
        2e-9 * static_cast<double>(from.size() * sizeof(float)) / (thread_seconds() - start);
    const double mix = read_and_write_gigabytes_per_second({to, from.size()});
    start = thread_seconds();
    plan.run(pointers);
    const double time = thread_seconds() - start;
    state.SetIterationTime(time);
    of_mix.push_back(1e-7 * bytes / time / mix);
    of_copy.push_back(1e-7 * bytes / time / copy);
  }
  state.counters["percent_of_mix"] = quantile(of_mix, 0.5);
  state.counters["p10"] = quantile(of_mix, 0.1);
  state.counters["p90"] = quantile(of_mix, 0.9);
  state.counters["percent_of_copy"] = quantile(of_copy, 0.5);
}

void register_all() {
  const auto best = platform::isa_report().best;
  const std::pair<CpuIsa, DType> kinds[] = {{CpuIsa::avx512, DType::f32},
                                            {CpuIsa::avx512_bf16, DType::bf16},
                                            {CpuIsa::avx512, DType::f16},
                                            {CpuIsa::avx2, DType::f32},
                                            {CpuIsa::portable, DType::f32}};
  for (const auto& [isa, dtype] : kinds) {
    if (isa > best) continue;
    const std::string isa_name = cpu_isa_facts(isa).name;
    for (const std::int64_t dim : {64, 128}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t seq : {128, 512, 2048, 8192}) {
          const std::string name = "attention/" + isa_name + "/" + to_string(dtype) + "/d" +
                                   std::to_string(dim) + "/s" + std::to_string(seq) +
                                   (causal ? "/causal" : "/full");
          const Shape shape{4, seq, seq, dim, causal};
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=, dtype = dtype](benchmark::State& state) {
                                         attention(state, isa_name, dtype, shape);
                                       })
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool side_by_side : {false, true}) {
      benchmark::RegisterBenchmark(
          (std::string("decode/") + to_string(dtype) + "/hq32/hk8/d128/k32768" +
           (side_by_side ? "/bshd" : "/bhsd"))
              .c_str(),
          [=](benchmark::State& state) { decode(state, dtype, 32768, side_by_side); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  // Fewer batch entries of the larger heads and of f32: the same bytes in all.
  const std::tuple<std::int64_t, std::int64_t, std::int64_t> kTiny[] = {{30720, 16, 128},
                                                                        {7680, 32, 256}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [most, heads, dim] : kTiny) {
      const std::int64_t batch = dtype == DType::f32 ? most / 2 : most;
      const std::string name = std::string("tiny/") + to_string(dtype) + "/b" +
                               std::to_string(batch) + "/h" + std::to_string(heads) + "/d" +
                               std::to_string(dim) + "/q1/k2";
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=, heads = heads, dim = dim](benchmark::State& state) {
                                     tiny(state, dtype, batch, heads, dim);
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace hipflash::bench

int main(int argc, char** argv) {
  hipflash::bench::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
