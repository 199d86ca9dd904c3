// The families for tiny problems: a handful of keys, and short sequences (game boards).
#pragma once

#include <optional>
#include <string>

#include "hipflash/problem.h"
#include "plan/kernel_plan.h"

namespace hipflash::plan {

// The plan if one of them takes the Problem; else `why_not` says what it does not take, or stays
// empty where nobody would expect it: too many queries or keys.
std::optional<KernelPlan> plan_tiny(const Problem& problem, const platform::DeviceFacts& device,
                                    std::string& why_not);

}  // namespace hipflash::plan
