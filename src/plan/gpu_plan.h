// Which GPU kernel solves a Problem, with which tile config and grid. Pure: needs no device.
#pragma once

#include "hipflash/problem.h"
#include "plan/kernel_plan.h"

namespace hipflash::plan {

// Throws Error(NotSupported) for a grid beyond what the runtime takes.
// `tuned` may be null.
KernelPlan plan_gpu(const Problem& problem, const platform::DeviceFacts& device,
                    const TileSource* tuned = nullptr);

// The facts of an architecture that may not be at hand, for compiling ahead: "gfx942", "sm_90a".
platform::DeviceFacts facts_of_architecture(const std::string& arch);

}  // namespace hipflash::plan
