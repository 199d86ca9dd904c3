// A loaded code object of a GPU, and what every launch from it looks at.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "platform/device.h"
#include "platform/gpu/driver.h"

namespace hipflash::platform {

class GpuModule final : public Module {
 public:
  GpuModule(GpuDriver& driver, int ordinal, std::span<const std::byte> code);
  ~GpuModule() override;

  void* entry(const char* name, unsigned shared_bytes) const;

 private:
  GpuDriver& driver_;
  int ordinal_;
  void* module_;
};

// Throws Error(InvalidArgument) for memory of the host or of another device: it would be read
// through the wrong address space or end the process's work on this device.
void check_owner(GpuDriver& driver, const DeviceFacts& facts, const char* name,
                 const void* pointer);

// A word of device memory in which kernels leave a SequenceFault.
class FaultWord {
 public:
  FaultWord(GpuDriver& driver, int ordinal);
  ~FaultWord();
  FaultWord(const FaultWord&) = delete;
  FaultWord& operator=(const FaultWord&) = delete;

  int* word() const noexcept { return word_; }
  // Waits for the device; the fault is forgotten.
  int take();

 private:
  GpuDriver& driver_;
  int ordinal_;
  int* word_;
};

std::unique_ptr<Operation> prepare_gpu_operation(GpuDriver& driver, const DeviceFacts& facts,
                                                 std::shared_ptr<const GpuModule> module,
                                                 const OperationLaunch& launch);

}  // namespace hipflash::platform
