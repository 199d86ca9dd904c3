#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <regex>

#include "cli/commands.h"
#include "cli/npy.h"
#include "core/fail.h"
#include "plan/dense_problem.h"
#include "platform/device_memory.h"
#include "verify/convert.h"

namespace hipflash::cli {
namespace {

struct Case {
  const char* name;
  plan::DenseShape shape;
};

constexpr Case kCases[] = {
    {"f32/h4/s512/d64", {DType::f32, 1, 4, 4, 512, 512, 64, false}},
    {"f32/h4/s2048/d64", {DType::f32, 1, 4, 4, 2048, 2048, 64, false}},
    {"f32/h4/s2048/d64/causal", {DType::f32, 1, 4, 4, 2048, 2048, 64, true}},
    {"f32/h4/s2048/d128", {DType::f32, 1, 4, 4, 2048, 2048, 128, false}},
    {"f32/h4/s2048/d128/causal", {DType::f32, 1, 4, 4, 2048, 2048, 128, true}},
    {"bf16/h4/s2048/d64", {DType::bf16, 1, 4, 4, 2048, 2048, 64, false}},
    {"bf16/h4/s2048/d128", {DType::bf16, 1, 4, 4, 2048, 2048, 128, false}},
    {"bf16/h4/s2048/d128/causal", {DType::bf16, 1, 4, 4, 2048, 2048, 128, true}},
    {"f16/h4/s2048/d128", {DType::f16, 1, 4, 4, 2048, 2048, 128, false}},
    {"f32/minilm/b8/h12/s128/d32", {DType::f32, 8, 12, 12, 128, 128, 32, false}},
    {"f32/gqa8x2/s1024/d128/causal", {DType::f32, 1, 8, 2, 1024, 1024, 128, true}},
    {"f32/decode/b1/h32x8/k4096/d128", {DType::f32, 1, 32, 8, 1, 4096, 128, true}},
};

AlignedBytes random_tensor(DType dtype, std::int64_t elements, std::mt19937* generator) {
  AlignedBytes data(static_cast<std::size_t>(elements) * size_of(dtype));
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < elements; ++i) {
    verify::store(dtype, data.data(), i, static_cast<double>(normal(*generator)));
  }
  return data;
}

// One row of the table: a plan, its tensors, and the times measured so far.
struct Row {
  Row(const Case& one, Context& ctx, platform::DeviceMemory& memory)
      : name(one.name), problem(plan::dense_problem(one.shape)), plan(ctx.plan(problem)) {
    std::mt19937 generator(1);
    const std::int64_t q_elements = problem.batch * problem.q.batch;
    const std::int64_t kv_elements = problem.batch * problem.k.batch;
    q = random_tensor(problem.dtype, q_elements, &generator);
    k = random_tensor(problem.dtype, kv_elements, &generator);
    v = random_tensor(problem.dtype, kv_elements, &generator);
    out = AlignedBytes(q.size());
    tensors.q = memory.upload(q.data(), q.size());
    tensors.k = memory.upload(k.data(), k.size());
    tensors.v = memory.upload(v.data(), v.size());
    tensors.out = memory.upload(out.data(), out.size());
    plan.run(tensors);  // first touch of scratch and threads is not what is measured
    memory.synchronize();
  }

  void measure(platform::DeviceMemory& memory) {
    const auto start = std::chrono::steady_clock::now();
    plan.run(tensors);
    memory.synchronize();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }

  std::string name;
  Problem problem;
  Plan plan;
  AlignedBytes q, k, v, out;
  TensorPointers tensors;
  std::vector<double> times;
};

// The value below which a part of the sorted times lies.
double quantile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(
      std::lround(part * static_cast<double>(sorted.size() - 1)))];
}

}  // namespace

int bench(const BenchOptions& options) {
  if (!options.json_file.empty()) require_writable(options.json_file);
  const std::regex filter(options.filter);
  Context ctx(device_or_default(options.device), context_options(options.threads));
  const std::unique_ptr<platform::DeviceMemory> memory =
      platform::make_device_memory(ctx.device().id);
  Progress progress;
  std::vector<Row> rows;
  for (const Case& one : kCases) {
    if (!std::regex_search(one.name, filter)) continue;
    progress.show(fmt::format("preparing {}", one.name));
    rows.emplace_back(one, ctx, *memory);
  }
  if (rows.empty()) {
    fail(ErrorCode::InvalidArgument, "--filter {} matches no shape of the table", options.filter);
  }
  // Interleaved, so that what disturbs the machine for a while does not hit one row alone.
  for (int round = 0; round < options.rounds; ++round) {
    progress.show(fmt::format("round {} of {}", round + 1, options.rounds));
    for (Row& row : rows) row.measure(*memory);
  }
  progress.show("");

  Json results = Json::array();
  std::string text = fmt::format("{:32} {:>11} {:>23} {:>10}\n", "shape", "median ms",
                                 "middle half ms", "GFLOP/s");
  for (Row& row : rows) {
    std::sort(row.times.begin(), row.times.end());
    const double median = quantile(row.times, 0.5);
    const double low = quantile(row.times, 0.25), high = quantile(row.times, 0.75);
    const double gflops = attention_flops(row.problem) / median * 1e-6;
    text += fmt::format("{:32} {:>11.4f} {:>11.4f} {:>11.4f} {:>10.1f}\n", row.name, median, low,
                        high, gflops);
    results.push_back({{"name", row.name},
                       {"config", row.plan.explanation().config},
                       {"median_ms", median},
                       {"low_ms", low},
                       {"high_ms", high},
                       {"rounds", options.rounds},
                       {"gflops", gflops}});
  }
  print(text);
  if (!options.json_file.empty()) {
    const DeviceInfo& device = ctx.device();
    const std::string json = Json{{"device", to_string(device.id)},
                                  {"name", device.name},
                                  {"arch", device.arch},
                                  {"compute_units", device.compute_units},
                                  {"results", results}}
                                 .dump(2, ' ', false, Json::error_handler_t::replace) +
                             "\n";
    write_file(options.json_file, {std::as_bytes(std::span(json.data(), json.size()))});
  }
  return 0;
}

}  // namespace hipflash::cli
