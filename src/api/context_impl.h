// What Context and Plan hold.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/meanwhile.h"
#include "api/overlap.h"
#include "api/problem_hash.h"
#include "autotune/tuning_table.h"
#include "hipflash/context.h"
#include "hipflash/workload.h"
#include "jit/code_provider.h"
#include "jit/fork_local.h"
#include "jit/lru.h"
#include "jit/module_cache.h"
#include "plan/cpu_plan.h"
#include "plan/kernel_plan.h"
#include "plan/operation_plan.h"
#include "platform/device.h"

namespace hipflash {

// A plan keeps its module alive, so it may outlive its Context.
struct Plan::Impl {
  Problem problem;
  bool empty = false;   // nothing to launch
  bool verify = false;  // HIPFLASH_VERIFY
  DeviceId device;
  AttentionArgs args = {};  // pointers are null
  api::Footprints footprints;
  std::unique_ptr<const platform::Runner> runner;
  Tier tier = Tier::memory;
  double compile_ms = 0.0, load_ms = 0.0;
  Explanation explanation;

  void run(const TensorPointers& tensors, Stream stream) const;
};

// An operation beside attention, ready to run. Keeps its module alive.
struct LoadedOperation {
  std::unique_ptr<const platform::Operation> operation;
  Explanation explanation;
};

struct Context::Impl {
  Impl(DeviceId id, const ContextOptions& options);
  ~Impl();

  const DeviceInfo& info();
  std::shared_ptr<Plan::Impl> plan(const Problem& problem, Stream stream = {});
  Explanation explain(const Problem& problem);
  void prefetch(std::vector<Problem> problems, Progress progress);
  void wait_prefetch();
  void join_prefetchers();  // waits for all of them, so no callback may call it
  void prefetch_here(const std::vector<Problem>& problems, const Progress& progress);

  // The operation for a problem, made once and remembered; may compile. `key` is the problem's
  // bytes after a letter for its kind, `make` plans it. While `stream` records a graph, one that is
  // not there yet is an error.
  struct PlannedOperation {
    plan::OperationPlan plan;
    OperationKernel kernel;  // as workloads name it
  };
  using MakePlan = std::function<PlannedOperation(const platform::DeviceFacts&)>;
  std::shared_ptr<const LoadedOperation> operation(const std::string& key, const MakePlan& make,
                                                   Stream stream);
  Explanation explain_operation(const MakePlan& make);
  // HIPFLASH_VERIFY, for a call on this stream.
  bool verifies(Stream stream) const;

  DeviceId id() const noexcept { return id_; }
  platform::Device& device() const noexcept { return *device_; }
  const ContextOptions& options() const noexcept { return options_; }
  const autotune::TuningTable& tuned() const noexcept { return tuned_; }
  plan::KernelPlan plan_here(const Problem& problem, const plan::TileSource* tuned,
                             plan::Kernel kernel = plan::Kernel::specialized) const;

  jit::CodeProvider provider;

 private:
  std::shared_ptr<Plan::Impl> make_plan(const Problem& problem);
  std::shared_ptr<Plan::Impl> make_special_plan(const Problem& problem);  // and remembers it
  std::shared_ptr<Plan::Impl> make_general_plan(const Problem& problem);
  jit::LoadedModule load_operation(const PlannedOperation& planned);
  jit::LoadedModule load(const Problem& problem, plan::KernelPlan* chosen);
  void finish(Plan::Impl& plan, const plan::KernelPlan& chosen,
              const jit::LoadedModule& loaded) const;
  std::string command_for(const Problem& problem, const plan::KernelPlan& chosen) const;
  // What will serve the problem: the specialized kernel, or the general one where the specialized
  // one is not to be had and cannot be compiled.
  plan::KernelPlan choose(const Problem& problem);
  jit::CompilerKind compiler_kind() const noexcept;
  std::string tier_text(const jit::Spec& spec);  // where the code object is now, for explain

  const DeviceId id_;
  const ContextOptions options_;
  const std::unique_ptr<platform::Device> device_;
  const bool verify_;
  autotune::TuningTable tuned_;  // read once, when the Context is made
  jit::ModuleCache modules_;
  jit::Lru<Problem, Plan::Impl, ProblemHash> plans_;
  jit::Lru<std::string, LoadedOperation> operations_;
  jit::ForkLocal<Meanwhile> meanwhile_;  // after what its thread uses
  std::once_flag info_made_;
  DeviceInfo info_;
  std::mutex prefetch_mutex_;  // guards the next three
  std::condition_variable prefetch_ended_;
  int prefetching_ = 0;                   // threads that have not ended
  std::vector<std::thread> prefetchers_;  // those and ended ones
};

namespace api {

// Settings of the environment with a Context's options over them.
jit::ProviderOptions provider_options(const ContextOptions& options);

// Throws Error(NoDevice) with the reason if the device is not there.
std::unique_ptr<platform::Device> open_device(DeviceId id, const ContextOptions& options);

// Throws Error(Internal) naming the kernel if the result of a call is wrong (HIPFLASH_VERIFY).
// While the stream records a graph there is no result yet, and nothing is done.
void verify_result(const Plan::Impl& plan, const TensorPointers& tensors, Stream stream);

}  // namespace api
}  // namespace hipflash
