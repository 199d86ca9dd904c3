// Which CPU kernel solves a Problem, with which numbers. Pure: needs no device.
#pragma once

#include "cpu/tiles.h"
#include "hipflash/problem.h"
#include "plan/kernel_plan.h"

namespace hipflash::plan {

// `isa` is the best set that may be used; `arch` of the result is the one that serves the dtype.
// `tuned` may be null; general kernels never ask it.
KernelPlan plan_cpu(const Problem& problem, CpuIsa isa, int threads,
                    Kernel kernel = Kernel::specialized, const TileSource* tuned = nullptr);

// The general kernel of an instruction set and element type, by itself.
jit::Spec general_cpu_spec(CpuIsa isa, ElementType element);

}  // namespace hipflash::plan
