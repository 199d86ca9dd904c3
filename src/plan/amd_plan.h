// Which of the AMD families solves a Problem, with which tile config and grid.
#pragma once

#include <cstddef>

#include "hipflash/problem.h"
#include "plan/gpu_builder.h"

namespace hipflash::plan {

// Shared memory of a block, on every card.
inline constexpr std::size_t kAmdSharedBytes = std::size_t{64} * 1024;

KernelPlan plan_amd(const Problem& problem, const Target& target);

}  // namespace hipflash::plan
