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

  explicit CpuModule(std::span<const std::byte> bytes);

 private:
  SharedObject object_;

 public:
  const Entry forward, merge;
};

class CpuDevice final : public Device {
 public:
  // `threads` 0: one per available CPU. `isa` as in HIPFLASH_CPU_ISA.
  CpuDevice(int threads, const std::string& isa);

  const DeviceFacts& facts() const noexcept override { return facts_; }
  CpuIsa isa() const noexcept { return isa_; }
  std::shared_ptr<Module> load(const jit::CodeObject& code) override;

  // Runs all items of a call, and of its merge, on the library's threads; returns when done.
  // `partial_bytes` is the size of the partial results of a call that splits its keys.
  // Throws Error(OutOfMemory) before anything is written.
  void run(const CpuModule& module, AttentionArgs args, const CpuWork& work,
           std::size_t partial_bytes) const;

 private:
  CpuIsa isa_;
  DeviceFacts facts_;
  jit::ForkLocal<ThreadPool> pool_;
};

}  // namespace hipflash::platform
