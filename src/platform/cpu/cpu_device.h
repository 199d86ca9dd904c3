// The CPU as a device: always there.
#pragma once

#include "cpu/tiles.h"
#include "jit/fork_local.h"
#include "platform/cpu/shared_object.h"
#include "platform/cpu/thread_pool.h"
#include "platform/device.h"

namespace hipflash::platform {

class CpuModule final : public Module {
 public:
  using Entry = void (*)(const AttentionArgs*, const CpuWork*, long long item, void* scratch);
  using OperationEntry = void (*)(const void* arguments, long long item);

  explicit CpuModule(std::span<const std::byte> bytes) : object_(bytes) {}

  // Throws Error(LaunchFailed) if there is none of this name.
  template <class F>
  F entry(const char* name) const {
    return reinterpret_cast<F>(object_.symbol(name));
  }

 private:
  SharedObject object_;
};

class CpuDevice final : public Device {
 public:
  // `threads` 0: one per available CPU. `isa` as in HIPFLASH_CPU_ISA.
  CpuDevice(int threads, CpuIsa isa);

  const DeviceFacts& facts() const noexcept override { return facts_; }
  CpuIsa isa() const noexcept { return isa_; }
  std::shared_ptr<Module> load(const jit::CodeObject& code) override;

  std::unique_ptr<Runner> prepare(std::shared_ptr<Module> module, const Launch& launch) override;
  std::unique_ptr<Operation> prepare_operation(std::shared_ptr<Module> module,
                                               const OperationLaunch& launch) override;

 private:
  CpuIsa isa_;
  DeviceFacts facts_;
  std::shared_ptr<jit::ForkLocal<ThreadPool>> pool_;
};

}  // namespace hipflash::platform
