// What solves a Problem on a device: a Spec, its arguments and how it is launched.
#pragma once

#include <cstddef>
#include <string>

#include "common/attention_args.h"
#include "hipflash/problem.h"
#include "jit/spec.h"
#include "plan/tile_choice.h"
#include "platform/device.h"

namespace hipflash::plan {

// Specialized kernels know the Problem's head dimensions and features at compile time; general ones
// serve any features and sizes and are what machines without a compiler have.
enum class Kernel { specialized, general };

struct KernelPlan {
  jit::Spec spec;
  AttentionArgs args = {};  // pointers are null
  platform::Launch launch;
  long long work_items = 0;         // GPU blocks or CPU work items
  std::size_t workspace_bytes = 0;  // memory beyond inputs and outputs
  std::string config, reason;       // for explain
  TileChoice tile;
};

}  // namespace hipflash::plan
