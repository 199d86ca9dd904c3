#include "cli/device_memory.h"

#include "core/fail.h"

namespace hipflash::cli {
namespace {

// The CPU works on the host's buffers themselves, and is done when a call returns.
class HostMemory final : public DeviceMemory {
 public:
  void* upload(void* host, std::size_t) override { return host; }
  void download(void*) override {}
  void synchronize() override {}
};

}  // namespace

std::unique_ptr<DeviceMemory> make_device_memory(const DeviceId& device) {
  if (device.platform != Platform::cpu) {
    fail(ErrorCode::NotSupported, "tensors in the memory of {}: the platform is not supported",
         to_string(device));
  }
  return std::make_unique<HostMemory>();
}

}  // namespace hipflash::cli
