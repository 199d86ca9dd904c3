// A loaded code object of a GPU, and what every launch from it looks at.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "platform/device.h"
#include "platform/gpu/driver.h"

namespace hipflash::platform {

class GpuModule final : public Module {
 public:
  GpuModule(GpuDriver& driver, int ordinal, const jit::CodeObject& code);
  ~GpuModule() override;  // waits for the device if anything was launched

  GpuDriver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  const std::string& key() const noexcept { return key_; }

  void* entry(const char* name, unsigned shared_bytes) const;
  void launch(void* entry, const LaunchShape& shape, void** parameters, Stream stream) const;

  std::atomic<bool> recorded = false;  // kept for graphs, see recorded.h

 private:
  GpuDriver& driver_;
  const int ordinal_;
  const std::string key_;
  void* const module_;
  mutable std::atomic<bool> launched_ = false;
};

// Throws Error(InvalidArgument) naming the pointer that is memory of the host or of another device:
// it would be read through the wrong address space or end the process's work on this device.
void check_owners(GpuDriver& driver, const DeviceFacts& facts,
                  std::span<const NamedPointer> pointers);

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

  std::atomic<bool> recorded = false;  // kept for graphs, see recorded.h

 private:
  GpuDriver& driver_;
  int ordinal_;
  int* word_;
};

std::unique_ptr<Operation> prepare_gpu_operation(GpuDriver& driver, const DeviceFacts& facts,
                                                 std::shared_ptr<GpuModule> module,
                                                 std::shared_ptr<FaultWord> faults,
                                                 const OperationLaunch& launch);

}  // namespace hipflash::platform
