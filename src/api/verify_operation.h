// HIPFLASH_VERIFY for operations beside attention: made before the call, because results may
// replace what they are made of.
#pragma once

#include "api/context_impl.h"
#include "api/host_copies.h"
#include "plan/operation_plan.h"

namespace hipflash::api {

class AppendCheck {
 public:
  AppendCheck(const DeviceId& device, const plan::AppendProblem& problem);
  // Throws Error(Internal) naming the kernel if the result is wrong.
  void expect_right(const LoadedOperation& loaded) const;

 private:
  const DeviceId device_;
  const plan::AppendProblem problem_;  // with the call's pointers
  AppendArgs before_;
  HostCopies copies_;
};

class MergeCheck {
 public:
  MergeCheck(const DeviceId& device, const plan::MergeProblem& problem);
  void expect_right(const LoadedOperation& loaded) const;

 private:
  const DeviceId device_;
  const plan::MergeProblem problem_;
  MergeArgs before_;
  HostCopies copies_;
};

}  // namespace hipflash::api
