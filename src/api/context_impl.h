// What Context and Plan hold.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "api/problem_hash.h"
#include "hipflash/context.h"
#include "jit/code_provider.h"
#include "jit/lru.h"
#include "jit/module_cache.h"
#include "plan/cpu_plan.h"
#include "platform/cpu/cpu_device.h"

namespace hipflash {

// A plan keeps its device and module alive, so it may outlive its Context.
struct Plan::Impl {
  Problem problem;
  bool empty = false;   // nothing to launch
  bool verify = false;  // HIPFLASH_VERIFY
  std::shared_ptr<const platform::CpuDevice> device;
  std::shared_ptr<const platform::CpuModule> module;
  plan::CpuPlan cpu;
  Tier tier = Tier::memory;
  double compile_ms = 0.0, load_ms = 0.0;
  Explanation explanation;

  void run(const TensorPointers& tensors) const;
};

struct Context::Impl {
  Impl(DeviceId id, const ContextOptions& options);
  ~Impl();

  const DeviceInfo& info();
  std::shared_ptr<Plan::Impl> plan(const Problem& problem);
  Explanation explain(const Problem& problem);
  void prefetch(std::vector<Problem> problems, Progress progress);
  void wait_prefetch();

  jit::CodeProvider provider;

 private:
  std::shared_ptr<Plan::Impl> make_plan(const Problem& problem);
  // What will serve the problem: the specialized kernel, or the general one where the specialized
  // one is not to be had and cannot be compiled.
  plan::CpuPlan choose(const Problem& problem);

  const std::shared_ptr<platform::CpuDevice> device_;
  const bool verify_;
  jit::ModuleCache modules_;
  jit::Lru<Problem, Plan::Impl, ProblemHash> plans_;
  std::once_flag info_made_;
  DeviceInfo info_;
  std::mutex prefetch_mutex_;
  std::vector<std::thread> prefetchers_;
};

namespace api {

// Settings of the environment with a Context's options over them.
jit::ProviderOptions provider_options(const ContextOptions& options);

Tier public_tier(jit::Tier tier) noexcept;

// Throws Error(NoDevice) unless the platform is built and the device exists.
void require_device(DeviceId id);

}  // namespace api
}  // namespace hipflash
