// Which CPU kernel solves a Problem, with which numbers. Pure: needs no device.
#pragma once

#include <cstddef>
#include <string>

#include "common/attention_args.h"
#include "cpu/tiles.h"
#include "hipflash/problem.h"
#include "jit/spec.h"

namespace hipflash::plan {

// Specialized kernels know the Problem's head dimensions and features at compile time; general ones
// serve any Problem of their element type and are what machines without a compiler have.
enum class Kernel { specialized, general };

struct CpuPlan {
  jit::Spec spec;
  AttentionArgs args = {};        // pointers are null
  CpuWork work = {};              // no items: nothing to launch
  std::size_t partial_bytes = 0;  // of the partial results when keys are split
  std::string config, reason;     // for explain

  // Memory beyond inputs and outputs, for all threads.
  std::size_t workspace_bytes(int threads) const noexcept {
    return static_cast<std::size_t>(work.scratch_bytes) * static_cast<std::size_t>(threads) +
           partial_bytes;
  }
};

// `isa` is the best set that may be used; `arch` of the result is the one that serves the dtype.
CpuPlan plan_cpu(const Problem& problem, CpuIsa isa, int threads,
                 Kernel kernel = Kernel::specialized);

// The general kernel of an instruction set and element type, by itself.
jit::Spec general_cpu_spec(CpuIsa isa, ElementType element);

}  // namespace hipflash::plan
