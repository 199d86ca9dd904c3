// Which GPU kernel solves a Problem, with which tile config and grid. Pure: needs no device.
#pragma once

#include "hipflash/problem.h"
#include "plan/kernel_plan.h"

namespace hipflash::plan {

// Throws Error(NotSupported) for a grid beyond what the runtime takes.
// `tuned` may be null; general kernels never ask it.
KernelPlan plan_gpu(const Problem& problem, const platform::DeviceFacts& device,
                    const TileSource* tuned = nullptr, Kernel kernel = Kernel::specialized);

// Whether a general kernel may take the specialized one's place: not where the caller wants the
// same bits whatever serves beside it.
bool general_may_serve(const Problem& problem) noexcept;

// The facts of an architecture that may not be at hand, for compiling ahead: "gfx942", "sm_90a".
platform::DeviceFacts facts_of_architecture(const std::string& arch);

}  // namespace hipflash::plan
