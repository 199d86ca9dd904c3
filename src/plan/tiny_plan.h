// The family for a handful of keys: a call that is one pass over memory.
#pragma once

#include <optional>
#include <string>

#include "hipflash/problem.h"
#include "plan/kernel_plan.h"

namespace hipflash::plan {

// The plan if the family takes the Problem; else `why_not` says what it does not take, or stays
// empty where nobody would expect it: too many queries or keys.
std::optional<KernelPlan> plan_tiny(const Problem& problem, const platform::DeviceFacts& device,
                                    std::string& why_not);

}  // namespace hipflash::plan
