// A GPU of either platform.
#pragma once

#include <memory>
#include <mutex>

#include "platform/device.h"
#include "platform/gpu/driver.h"

namespace hipflash::platform {

class FaultWord;

class GpuDevice final : public Device {
 public:
  // Throws Error(NoDevice) with the reason if the runtime or the device is not there.
  GpuDevice(Kind kind, int ordinal);
  ~GpuDevice() override;

  const DeviceFacts& facts() const noexcept override { return facts_; }
  bool capturing(Stream stream) const override { return driver_.capturing(stream); }
  std::shared_ptr<Module> load(const jit::CodeObject& code) override;
  std::unique_ptr<Runner> prepare(std::shared_ptr<Module> module, const Launch& launch) override;
  std::unique_ptr<Operation> prepare_operation(std::shared_ptr<Module> module,
                                               const OperationLaunch& launch) override;
  int* fault_word() override;
  int take_fault() override;

  class Counters;  // words that kernels count pieces of work in

 private:
  std::shared_ptr<FaultWord> faults();

  GpuDriver& driver_;
  DeviceFacts facts_;
  std::shared_ptr<Counters> counters_;
  std::once_flag faults_made_;
  std::shared_ptr<FaultWord> faults_;  // made with the first plan: never inside of a call
};

}  // namespace hipflash::platform
