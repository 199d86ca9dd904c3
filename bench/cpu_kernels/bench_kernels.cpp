// One-thread speed of the CPU kernels as a part of the FMA peak that is measured beside them.
//
//   bench_kernels [--isa NAME] [--element f32|f16|bf16] [--dims 64,128] [--seq 2048] [--heads 4]
//                 [--queries N] [--kv-heads N] [--batch N] [--rows N] [--tile TQ,TK,MR,MV] [--reps
//                 N]
//
// The peak is that of the instruction the kernel is made of: f32 FMA of the vector width, or
// vdpbf16ps. Repetitions of peak and kernel alternate; medians are compared.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "bench/peak.h"
#include "kernel_build.h"

namespace hipflash::bench {
namespace {

double median(const std::vector<double>& samples) {
  return quantile(samples, 0.5);
}

void* tensor(std::size_t count, ElementType type, unsigned seed) {
  const std::size_t size = type == ElementType::f32 ? 4 : 2;
  auto* p = static_cast<char*>(std::aligned_alloc(64, (count * size + 63) / 64 * 64));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = normal(random);
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    // A half with the sign and a size in 0.5 .. 1 serves for speed.
    const auto half =
        static_cast<unsigned short>((bits >> 16 & 0x8000) | 0x3800 | (bits >> 13 & 1023));
    const auto bf16 = static_cast<unsigned short>(bits >> 16);
    if (type == ElementType::f32) std::memcpy(p + 4 * i, &x, 4);
    if (type == ElementType::f16) std::memcpy(p + 2 * i, &half, 2);
    if (type == ElementType::bf16) std::memcpy(p + 2 * i, &bf16, 2);
  }
  return p;
}

std::vector<int> numbers(const std::string& text) {
  std::vector<int> list;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) list.push_back(std::stoi(word));
  return list;
}

int run(int argc, char** argv) {
  KernelConfig config;
  config.isa = CpuIsa::avx512;
  std::string compiler = "g++", options, folder = "/tmp/hipflash_bench_kernels";
  std::vector<int> dims = {64, 128};
  int seq = 2048, queries = 0, heads = 4, kv_heads = 0, batch = 1, rows = 0, reps = 15;
  bool general = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--isa") {
      for (int isa = 0; isa < 4; ++isa) {
        if (value == cpu_isa_facts(static_cast<CpuIsa>(isa)).name)
          config.isa = static_cast<CpuIsa>(isa);
      }
    }
    if (name == "--element") {
      config.element = value == "f16"    ? ElementType::f16
                       : value == "bf16" ? ElementType::bf16
                                         : ElementType::f32;
    }
    if (name == "--cxx") compiler = value;
    if (name == "--options") options = value;
    if (name == "--folder") folder = value;
    if (name == "--dims") dims = numbers(value);
    if (name == "--seq") seq = std::stoi(value);
    if (name == "--queries") queries = std::stoi(value);
    if (name == "--heads") heads = std::stoi(value);
    if (name == "--kv-heads") kv_heads = std::stoi(value);
    if (name == "--batch") batch = std::stoi(value);
    if (name == "--rows") rows = std::stoi(value);
    if (name == "--reps") reps = std::stoi(value);
    if (name == "--general") general = value == "1";
    if (name == "--tile") {
      const auto t = numbers(value);
      config.tile = {t.at(0), t.at(1), t.at(2), t.at(3)};
    }
  }
  if (!queries) queries = seq;
  if (!kv_heads) kv_heads = heads;
  for (const int dim : dims) {
    for (const bool causal : {false, true}) {
      config.head_dim = config.value_head_dim = general ? 0 : dim;
      config.window_right = causal;
      const Kernel kernel = build_kernel(config, compiler, folder, options);
      AttentionArgs a = {};
      a.batch = batch, a.heads_q = heads, a.heads_kv = kv_heads, a.seq_q = queries, a.seq_k = seq;
      a.head_dim = a.value_head_dim = dim;
      const auto strides = [&](int h, int s) {
        return RowStrides{1LL * h * s * dim, dim, 1LL * s * dim};
      };
      a.q_stride = a.out_stride = strides(heads, queries);
      a.k_stride = a.v_stride = strides(kv_heads, seq);
      const std::size_t q_size = 1ULL * batch * heads * queries * dim;
      const std::size_t k_size = 1ULL * batch * kv_heads * seq * dim;
      a.q = tensor(q_size, config.element, 1), a.k = tensor(k_size, config.element, 2);
      a.v = tensor(k_size, config.element, 3), a.out = tensor(q_size, config.element, 4);
      std::vector<float> lse(1ULL * batch * heads * queries);
      a.lse = lse.data();
      a.lse_stride = {1LL * heads * queries, 1, queries};
      a.scale = 1.0f / std::sqrt(static_cast<float>(dim));
      a.diagonal = a.alibi_diagonal = seq - queries;
      a.window_left = 1 << 29, a.window_right = causal ? 0 : 1 << 29;
      a.splits = 1;
      CpuWork work = plan_cpu_work(a, kernel.tile, 1);
      if (rows) {
        work.rows_per_item = rows;
        const long long all = 1LL * queries * (heads / kv_heads);
        work.chunks = static_cast<int>((all + rows - 1) / rows);
        work.items = 1LL * batch * kv_heads * work.chunks;
        work.pairs_per_item = 1;
        work.scratch_bytes = cpu_scratch(kernel.tile, dim, dim, work, false).bytes;
      }
      void* scratch =
          std::aligned_alloc(64, static_cast<std::size_t>(work.scratch_bytes + 63) / 64 * 64);
      std::vector<double> seconds, peaks;
      for (int rep = 0; rep < reps; ++rep) {
        peaks.push_back(peak_gflops(cpu_isa_facts(config.isa).name));
        const double start = thread_seconds();
        for (long long item = 0; item < work.items; ++item)
          kernel.forward(&a, &work, item, scratch);
        seconds.push_back(thread_seconds() - start);
      }
      const double best = *std::min_element(seconds.begin(), seconds.end());
      const double top = *std::max_element(peaks.begin(), peaks.end());
      double keys = seq;
      if (causal) keys = queries == seq ? seq * 0.5 : seq - queries * 0.5;
      const double flop = 4.0 * batch * heads * queries * keys * dim;
      const double bytes =
          2.0 * static_cast<double>(k_size) * (config.element == ElementType::f32 ? 4 : 2);
      std::printf(
          "%-11s %-4s d%-3d b%d h%d/%d q%d k%d %-6s rows %-4d %9.3f ms (best %.3f) %7.1f GFLOP/s",

          cpu_isa_facts(config.isa).name, name_of(config.element), dim, batch, heads, kv_heads,
          queries, seq, causal ? "causal" : "full", work.rows_per_item, median(seconds) * 1e3,
          best * 1e3, flop / median(seconds) * 1e-9);
      if (top > 0) {
        std::printf("  median %4.1f%% best %4.1f%% of %.0f",
                    100 * flop / median(seconds) * 1e-9 / median(peaks),
                    100 * flop / best * 1e-9 / top, top);
      }
      std::printf("  K+V %.1f GB/s\n", bytes / median(seconds) * 1e-9);
      std::free(scratch);
      std::free(const_cast<void*>(a.q)), std::free(const_cast<void*>(a.k));
      std::free(const_cast<void*>(a.v)), std::free(a.out);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hipflash::bench

int main(int argc, char** argv) {
  return hipflash::bench::run(argc, argv);
}
