// Which of the NVIDIA families solves a Problem, with which tile config and grid.
#pragma once

#include "hipflash/problem.h"
#include "plan/gpu_builder.h"

namespace hipflash::plan {

KernelPlan plan_nvidia(const Problem& problem, const Target& target);

}  // namespace hipflash::plan
