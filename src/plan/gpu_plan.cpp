#include "plan/gpu_plan.h"

#include <string>
#include <utility>

#include "core/fail.h"
#include "plan/amd_plan.h"
#include "plan/gpu_builder.h"
#include "plan/nv_plan.h"
#include "plan/tiny_plan.h"

namespace hipflash::plan {
namespace {

using platform::DeviceFacts;

KernelPlan plan_family(const Problem& problem, const Target& target) {
  return target.device.kind == platform::Kind::cuda ? plan_nvidia(problem, target)
                                                    : plan_amd(problem, target);
}

}  // namespace

bool general_may_serve(const Problem& problem) noexcept {
  return !problem.batch_invariant;
}

KernelPlan plan_gpu(const Problem& problem, const DeviceFacts& device, const TileSource* tuned,
                    Kernel kernel) {
  const Target target{device, tuned, kernel};
  if (kernel == Kernel::general) return plan_family(problem, target);
  std::string not_tiny;
  if (auto tiny = plan_tiny(problem, device, not_tiny)) return *std::move(tiny);
  KernelPlan plan = plan_family(problem, target);
  if (!not_tiny.empty()) plan.reason += "; " + not_tiny;
  return plan;
}

DeviceFacts facts_of_architecture(const std::string& arch) {
  DeviceFacts facts;
  facts.arch = arch;
  facts.name = arch;
  facts.compute_units = 1;  // never splits keys: a kernel made ahead serves the usual case
  if (arch.rfind("gfx", 0) == 0) {
    facts.kind = platform::Kind::hip;
    facts.shared_bytes = kAmdSharedBytes;
    return facts;
  }
  if (arch.rfind("sm_", 0) == 0) {
    facts.kind = platform::Kind::cuda;
    facts.shared_bytes = nv_shared_bytes(arch);
    return facts;
  }
  fail(ErrorCode::InvalidArgument,
       "arch = \"{}\" must be a CPU architecture of `hipflash info`, gfx... or sm_...", arch);
}

}  // namespace hipflash::plan
