// A GPU of either platform.
#pragma once

#include <memory>

#include "platform/device.h"
#include "platform/gpu/driver.h"

namespace hipflash::platform {

class GpuDevice final : public Device {
 public:
  // Throws Error(NoDevice) with the reason if the runtime or the device is not there.
  GpuDevice(Kind kind, int ordinal);
  ~GpuDevice() override;

  const DeviceFacts& facts() const noexcept override { return facts_; }
  std::shared_ptr<Module> load(const jit::CodeObject& code) override;
  std::unique_ptr<Runner> prepare(std::shared_ptr<Module> module, const Launch& launch) override;

  class Counters;  // words that kernels count pieces of work in

 private:
  GpuDriver& driver_;
  DeviceFacts facts_;
  std::shared_ptr<Counters> counters_;
};

}  // namespace hipflash::platform
