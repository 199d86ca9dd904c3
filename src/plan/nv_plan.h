// Which of the NVIDIA families solves a Problem, with which tile config and grid.
#pragma once

#include <cstddef>
#include <string>

#include "hipflash/problem.h"
#include "plan/gpu_builder.h"

namespace hipflash::plan {

// The most shared memory of a block, by the name of an architecture: what a device says of itself
// where one is at hand.
std::size_t nv_shared_bytes(const std::string& arch);

KernelPlan plan_nvidia(const Problem& problem, const Target& target);

}  // namespace hipflash::plan
