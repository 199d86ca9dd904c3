// What runs the operations beside attention: appending to a cache, merging partial results. Pure:
// needs no device, so kernels can be named, compiled and packed for any.
#pragma once

#include <cstdint>
#include <string>

#include "common/append_args.h"
#include "common/merge_args.h"
#include "hipflash/tensor.h"
#include "jit/spec.h"
#include "platform/device.h"
#include "platform/operation.h"

namespace hipflash::plan {

struct OperationPlan {
  jit::Spec spec;
  platform::OperationLaunch launch;
  std::string config, reason;  // for explain
};

// Everything about an append that is not data. Two are equal if their bytes are.
struct AppendProblem {
  AppendArgs args = {};  // pointers of absent things are null, others are not; see forget_data()
  DType dtype = DType::f32;
  int aligned = 0;  // rows, pieces and halves of the rotation are whole multiples of 16 bytes

  // Leaves of each pointer whether it is null.
  void forget_data() noexcept;
};

struct MergeProblem {
  MergeArgs args = {};
  DType dtype = DType::f32;       // of the result
  DType part_dtype = DType::f32;  // f32, or that of the result
  int aligned = 0;
  int reserved = 0;

  void forget_data() noexcept;
};

// Throws Error(NotSupported) for more than a launch can count.
OperationPlan plan_append(const AppendProblem& problem, const platform::DeviceFacts& device);
OperationPlan plan_merge(const MergeProblem& problem, const platform::DeviceFacts& device);

}  // namespace hipflash::plan
