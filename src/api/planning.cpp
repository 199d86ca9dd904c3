#include "api/planning.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/problem_json.h"
#include "core/fail.h"
#include "core/json.h"
#include "plan/cpu_plan.h"
#include "plan/gpu_plan.h"

namespace hipflash::api {
namespace {

constexpr CpuIsa kIsas[] = {
    CpuIsa::portable,
#if defined(__x86_64__)
    CpuIsa::avx2,
    CpuIsa::avx512,
    CpuIsa::avx512_bf16,
#endif
};

// More compute units than any device has: keys are split wherever it may pay.
constexpr int kHugeDevice = 1 << 16;
// More blocks for each compute unit than change what a block does.
constexpr int kMostBlocksOfUnit = 64;
// Keys of single queries, for which every kind of kernel that any number of them takes is made.
constexpr std::int64_t kLongKeys = 16384;

plan::KernelPlan plan_for(const Problem& problem, const std::string& arch, int compute_units,
                          const plan::TileSource* tuned) {
  if (!is_gpu(arch)) {
    return plan::plan_cpu(problem, isa_of(arch), compute_units, plan::Kernel::specialized, tuned);
  }
  platform::DeviceFacts facts = plan::facts_of_architecture(arch);
  facts.compute_units = compute_units;
  return plan::plan_gpu(problem, facts, tuned);
}

KernelRequest request_of(const Problem& p) {
  KernelRequest request;
  request.dtype = p.dtype;
  request.head_dim = p.head_dim;
  request.value_head_dim = p.value_head_dim;
  request.causal = p.causal;
  request.top_left = p.alignment == MaskAlignment::top_left;
  request.window = p.window;
  request.softcap = p.softcap;
  request.alibi = p.features.alibi;
  request.bias = p.features.bias;
  request.mask = p.features.mask;
  request.lse = p.features.lse;
  request.strict_f32 = p.strict_f32;
  return request;
}

std::string options_text(const KernelRequest& request) {
  std::string text =
      fmt::format("--dtype {} --head-dim {}", to_string(request.dtype), request.head_dim);
  if (request.value_head_dim != request.head_dim) {
    text += fmt::format(" --value-head-dim {}", request.value_head_dim);
  }
  if (request.causal) text += " --causal";
  if (request.top_left) text += " --top-left";
  if (request.window.left >= 0 || request.window.right >= 0) {
    text += fmt::format(" --window {},{}", request.window.left, request.window.right);
  }
  if (request.softcap > 0.0f) text += fmt::format(" --softcap {}", request.softcap);
  if (request.alibi) text += " --alibi";
  if (request.bias) text += " --bias";
  if (request.mask) text += " --mask";
  if (request.lse) text += " --lse";
  if (request.strict_f32) text += " --strict-f32";
  return text;
}

bool makes(const std::vector<Problem>& problems, const jit::Spec& spec, int compute_units) {
  for (const Problem& problem : problems) {
    for (const jit::Spec& made : specs_for(problem, spec.arch, compute_units)) {
      if (made == spec) return true;
    }
  }
  return false;
}

}  // namespace

Problem forward_problem(const KernelRequest& request) {
  Problem problem;
  problem.dtype = request.dtype;
  problem.batch = 1;
  problem.heads_q = problem.heads_kv = 32;
  problem.seq_q = problem.seq_k = request.seq;
  problem.head_dim = request.head_dim;
  problem.value_head_dim = request.value_head_dim > 0 ? request.value_head_dim : request.head_dim;
  problem.causal = request.causal;
  problem.alignment = request.top_left ? MaskAlignment::top_left : MaskAlignment::bottom_right;
  problem.window = request.window;
  problem.softcap = request.softcap;
  if (request.scale) problem.scale = *request.scale;
  problem.features.alibi = request.alibi;
  problem.features.bias = request.bias;
  problem.features.mask = request.mask;
  problem.features.lse = request.lse;
  problem.strict_f32 = request.strict_f32 && request.dtype == DType::f32;
  problem.set_dense_bshd();
  if (request.scale) problem.scale = *request.scale;
  problem.bias = problem.mask = {0, request.seq * request.seq, request.seq, 1};
  return problem;
}

std::vector<Problem> usual_problems(const KernelRequest& request) {
  const Problem forward = forward_problem(request);
  std::vector<Problem> problems = {forward};
  for (const std::int64_t group : {1, 4, 8}) {
    Problem single = forward;
    single.seq_q = 1;
    single.seq_k = std::max(single.seq_k, kLongKeys);
    single.heads_kv = single.heads_q / group;
    single.set_dense_bshd();
    problems.push_back(single);
  }
  return problems;
}

bool is_gpu(const std::string& arch) {
  return arch.starts_with("gfx") || arch.starts_with("sm_");
}

std::span<const CpuIsa> cpu_isas() {
  return kIsas;
}

std::string this_cpu() {
  return platform::arch_of(platform::choose_isa(""));
}

CpuIsa isa_of(const std::string& arch) {
  std::string known;
  for (const CpuIsa isa : kIsas) {
    const std::string name = platform::arch_of(isa);
    if (arch == name) return isa;
    known += (known.empty() ? "" : ", ") + name;
  }
  fail(ErrorCode::InvalidArgument,
       "arch = \"{}\" must be one of {}, or an architecture of a GPU (gfx..., sm_...)", arch,
       known);
}

std::vector<jit::Spec> specs_for(const Problem& problem, const std::string& arch, int compute_units,
                                 const plan::TileSource* tuned) {
  std::vector<int> sizes = {compute_units};
  if (compute_units <= 0) {
    sizes = {1, kHugeDevice};
    if (is_gpu(arch)) {  // what a block does may depend on how many of them a unit gets
      const plan::KernelPlan plan = plan_for(problem, arch, 1, nullptr);
      const auto blocks = static_cast<int>(
          std::clamp<long long>(plan.work_items / std::max(plan.args.splits, 1), 1, kHugeDevice));
      for (int quarters = 2; quarters <= 4 * kMostBlocksOfUnit; ++quarters) {
        const int size = std::max(4 * blocks / quarters, 2);
        if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
      }
    }
  }
  std::vector<const plan::TileSource*> sources = {nullptr};
  if (tuned != nullptr) sources.push_back(tuned);
  std::vector<jit::Spec> specs;
  for (const int size : sizes) {
    for (const plan::TileSource* source : sources) {
      jit::Spec spec = plan_for(problem, arch, size, source).spec;
      if (std::find(specs.begin(), specs.end(), spec) == specs.end()) {
        specs.push_back(std::move(spec));
      }
    }
  }
  return specs;
}

std::vector<jit::Spec> general_gpu_specs(const Problem& problem, const std::string& arch) {
  std::vector<jit::Spec> specs;
  if (!plan::general_may_serve(problem)) return specs;
  Problem one = problem;
  for (const bool paged : {false, true}) {
    one.features.paged_kv = paged;
    specs.push_back(plan::plan_gpu(one, plan::facts_of_architecture(arch), nullptr,  //
                                   plan::Kernel::general)
                        .spec);
  }
  return specs;
}

std::string pack_command(const Problem& problem, const jit::Spec& spec, int compute_units) {
  const std::string arch = spec.arch.substr(0, spec.arch.find(':'));
  jit::Spec plain = spec;
  plain.arch = arch;
  const KernelRequest request = request_of(problem);
  std::string what = options_text(request);
  if (!makes(usual_problems(request), plain, 0)) {
    // Strides, scales and sizes that the options have no words for.
    const bool any_device = makes({problem}, plain, 0);
    if (!any_device) what = fmt::format("--compute-units {} ", compute_units);
    what = fmt::format("{}--problem '{}'", any_device ? "" : what,
                       json_line(problem_to_json(problem)));
  }
  return fmt::format("hipflash pack create -o more.hfpack --arch {} {}", arch, what);
}

}  // namespace hipflash::api
