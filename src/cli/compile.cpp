#include <cstdlib>

#include "cli/commands.h"
#include "core/fail.h"
#include "hipflash/prebuilt.h"

namespace hipflash::cli {
api::KernelRequest kernel_request(const CompileOptions& options, DType dtype,
                                  std::int64_t head_dim) {
  api::KernelRequest request;
  request.dtype = dtype;
  request.head_dim = head_dim;
  request.value_head_dim = options.value_head_dim;
  request.seq = options.seq;
  request.causal = options.attention.causal;
  request.top_left = options.attention.top_left;
  request.window = options.attention.window;
  request.softcap = options.attention.softcap;
  request.scale = options.attention.scale;
  request.alibi = options.alibi;
  request.bias = options.bias;
  request.mask = options.mask;
  request.lse = options.lse;
  request.strict_f32 = options.attention.strict_f32;
  return request;
}

std::vector<DType> dtypes_of(const CompileOptions& options, const std::string& arch) {
  if (!options.dtypes.empty()) return options.dtypes;
  // An architecture with bf16 products is one for bf16; the other types run as on the one without.
  if (arch.ends_with("_bf16")) return {DType::bf16};
  return {DType::f16, DType::bf16, DType::f32};
}

std::vector<std::int64_t> head_dims_of(const CompileOptions& options) {
  return options.head_dims.empty() ? std::vector<std::int64_t>{64, 128} : options.head_dims;
}

namespace {

// What a call on this machine would compile or find.
CompiledKernel compile_here(Context& ctx, const Problem& problem) {
  const Plan plan = ctx.plan(problem);
  const Explanation& why = plan.explanation();
  return {why.key, why.family, why.arch, to_string(problem.dtype), plan.tier(), plan.compile_ms()};
}

int compile_general(const CompileOptions& options) {
  const std::string folder = options.output.empty() ? user_cache::path() : options.output;
  const std::vector<std::string> archs =
      options.archs.empty() ? cpu_architectures() : options.archs;
  Progress progress;
  progress.show("compiling the general kernels");
  const std::vector<std::string> keys = write_general_kernels(folder, archs);
  progress.show("");
  if (options.json) {
    print_json({{"folder", folder}, {"keys", keys}});
  } else {
    print(fmt::format("{} kernels in {}\n", keys.size(), folder));
  }
  return 0;
}

}  // namespace

int compile_kernels(const CompileOptions& options) {
  if (options.general) return compile_general(options);
  ::unsetenv("HIPFLASH_STRICT");  // it forbids compiles during calls; this one was asked for
  const std::vector<std::int64_t> head_dims = head_dims_of(options);
  Progress progress;
  std::vector<CompiledKernel> kernels;
  const auto each_problem = [&](const std::string& arch, const auto& compile) {
    for (const DType dtype : dtypes_of(options, arch)) {
      for (const std::int64_t head_dim : head_dims) {
        progress.show(fmt::format("compiling {} d{} {}", to_string(dtype), head_dim, arch));
        kernels.push_back(compile(api::forward_problem(kernel_request(options, dtype, head_dim))));
      }
    }
  };
  if (options.archs.empty()) {
    Context ctx(device_or_default(options.device));
    each_problem(ctx.device().arch,
                 [&ctx](const Problem& problem) { return compile_here(ctx, problem); });
  }
  for (const std::string& arch : options.archs) {
    each_problem(arch, [&arch](const Problem& problem) { return compile_ahead(problem, arch); });
  }
  progress.show("");

  Json list = Json::array();
  std::string text;
  for (const CompiledKernel& kernel : kernels) {
    list.push_back({{"key", kernel.key},
                    {"kernel", kernel.family},
                    {"arch", kernel.arch},
                    {"label", kernel.label},
                    {"tier", to_string(kernel.tier)},
                    {"compile_ms", kernel.compile_ms}});
    text += fmt::format("{:.16}  {}  {}  {}  {}", kernel.key, kernel.arch, kernel.family,
                        kernel.label, to_string(kernel.tier));
    if (kernel.tier == Tier::compiled) text += fmt::format(" in {:.0f} ms", kernel.compile_ms);
    text += "\n";
  }
  if (options.json) {
    print_json({{"kernels", list}});
  } else {
    print(text);
  }
  return 0;
}

}  // namespace hipflash::cli
