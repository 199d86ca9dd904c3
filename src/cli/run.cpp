#include <algorithm>
#include <chrono>
#include <vector>

#include "cli/commands.h"
#include "cli/tensors.h"
#include "core/fail.h"
#include "platform/device_memory.h"
#include "verify/reference.h"
#include "verify/sequences.h"

namespace hipflash::cli {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Timing {
  double median_ms = 0;
  int runs = 0;
};

// The first run is the one that counts for the result; the others write the same bits again.
Timing time_runs(const Plan& plan, const TensorPointers& tensors, platform::DeviceMemory& memory,
                 int repeat) {
  constexpr double kEnoughMs = 200;
  constexpr int kMost = 100;
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  do {
    const Clock::time_point before = Clock::now();
    plan.run(tensors);
    memory.synchronize();
    times.push_back(milliseconds_since(before));
  } while (repeat > 0
               ? static_cast<int>(times.size()) < repeat
               : static_cast<int>(times.size()) < kMost && milliseconds_since(start) < kEnoughMs);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return {*middle, static_cast<int>(times.size())};
}

std::size_t bytes_of(const AlignedBytes& buffer) {
  return buffer.size();
}

// The same call with its tensors on the device.
TensorPointers upload(const TensorPointers& host, const CallTensors& call,
                      platform::DeviceMemory& memory) {
  const auto there = [&memory](const void* data, const AlignedBytes& buffer) {
    return data ? memory.upload(buffer.data(), bytes_of(buffer)) : nullptr;
  };
  TensorPointers device;
  device.q = there(host.q, call.q_array.data);
  device.k = there(host.k, call.k_array.data);
  device.v = there(host.v, call.v_array.data);
  device.out = there(host.out, call.out_data);
  device.lse = static_cast<float*>(there(host.lse, call.lse_data));
  device.bias = there(host.bias, call.bias_array.data);
  device.mask = there(host.mask, call.mask_array.data);
  device.alibi = static_cast<const float*>(there(host.alibi, call.alibi_array.data));
  device.sinks = static_cast<const float*>(there(host.sinks, call.sinks_array.data));
  device.cu_seqlens_q = there(host.cu_seqlens_q, call.cu_q);
  device.cu_seqlens_k = there(host.cu_seqlens_k, call.cu_k);
  const auto numbers = [&](const std::int32_t* data, const AlignedBytes& buffer) {
    return static_cast<const std::int32_t*>(there(data, buffer));
  };
  device.kv_lengths = numbers(host.kv_lengths, call.kv_lengths);
  device.kv_batch_index = numbers(host.kv_batch_index, call.batch_index);
  device.kv_left_padding = numbers(host.kv_left_padding, call.left_padding);
  device.block_table = numbers(host.block_table, call.block_table);
  return device;
}

// Of all sequences, each as long as it is.
double flops_of(const Problem& problem, const TensorPointers& host) {
  double flops = 0;
  for (std::int64_t i = 0; i < verify::dense_calls(problem); ++i) {
    flops += attention_flops(verify::dense_call(problem, host, i).problem);
  }
  return flops;
}

std::span<const std::byte> bytes(const AlignedBytes& buffer) {
  return {buffer.data(), buffer.size()};
}

std::string report_text(const Context& ctx, const Plan& plan, const Timing& timing, double gflops,
                        const verify::Verdict* verdict) {
  const Explanation& why = plan.explanation();
  std::string text =
      fmt::format("device  {} ({}, {})\nkernel  {}\nconfig  {}\nkey     {}\n", why.device,
                  ctx.device().name, why.arch, why.family, why.config, why.key);
  text += fmt::format("tier    {} (compile {:.1f} ms, load {:.2f} ms)\n", to_string(plan.tier()),
                      plan.compile_ms(), plan.load_ms());
  text += fmt::format("run     {:.4g} ms (median of {}), {:.4g} GFLOP/s\n", timing.median_ms,
                      timing.runs, gflops);
  if (verdict) {
    text += verdict->ok() ? fmt::format("verify  right: {}\n", verdict->text())
                          : fmt::format("verify  WRONG: {}\n", verdict->text());
  }
  return text;
}

Json report_json(const Plan& plan, const Timing& timing, double gflops,
                 const verify::Verdict* verdict) {
  const Explanation& why = plan.explanation();
  Json json = {{"device", why.device},
               {"arch", why.arch},
               {"kernel", why.family},
               {"config", why.config},
               {"key", why.key},
               {"tier", to_string(plan.tier())},
               {"compile_ms", plan.compile_ms()},
               {"load_ms", plan.load_ms()},
               {"run_ms", timing.median_ms},
               {"runs", timing.runs},
               {"gflops", gflops}};
  if (verdict) {
    json["max_error"] = verdict->out.max_error;
    json["error_bound"] = verdict->out.bound;
    if (plan.problem().features.lse) json["lse_max_error"] = verdict->lse.max_error;
    json["verified"] = verdict->ok();
    if (!verdict->ok()) json["fault"] = verdict->text();
  }
  return json;
}

}  // namespace

int run_attention(const RunOptions& options) {
  for (const std::string& path : {options.out, options.lse}) {
    if (!path.empty()) require_writable(path);
  }
  Progress progress;
  progress.show("reading");
  CallTensors call = load_tensors(options);
  const Problem problem = make_problem(call.q, call.k, call.v, call.out, call.options);
  const TensorPointers host = make_pointers(call.q, call.k, call.v, call.out, call.options);

  Context ctx(device_or_default(options.device), context_options(options.threads));
  progress.show("planning");
  const Plan plan = ctx.plan(problem);
  const std::unique_ptr<platform::DeviceMemory> memory =
      platform::make_device_memory(ctx.device().id);
  const TensorPointers device = upload(host, call, *memory);
  progress.show("running");
  const Timing timing = time_runs(plan, device, *memory, options.repeat);
  memory->download(call.out_data.data());
  if (host.lse) memory->download(call.lse_data.data());

  const double gflops =
      timing.median_ms > 0 ? flops_of(problem, host) / timing.median_ms * 1e-6 : 0.0;
  verify::Verdict verdict;
  if (options.verify) {
    progress.show("verifying");
    verdict = verify::check(problem, host);
  }
  if (!options.out.empty()) {
    write_npy(options.out, call.out_type, call.out_shape, bytes(call.out_data));
  }
  if (!options.lse.empty()) {
    write_npy(options.lse, NpyType::f32, call.lse_shape, bytes(call.lse_data));
  }
  progress.show("");
  const verify::Verdict* const checked = options.verify ? &verdict : nullptr;
  if (options.json) {
    print_json(report_json(plan, timing, gflops, checked));
  } else {
    print(report_text(ctx, plan, timing, gflops, checked));
  }
  return verdict.ok() ? 0 : 1;
}

}  // namespace hipflash::cli
