#include "platform/device_memory.h"

#include <algorithm>
#include <vector>

#include "platform/gpu/driver.h"

namespace hipflash::platform {
namespace {

// The CPU works on the host's buffers themselves, and is done when a call returns.
class HostMemory final : public DeviceMemory {
 public:
  void* upload(void* host, std::size_t) override { return host; }
  void download(void*) override {}
  void synchronize() override {}
};

class GpuMemory final : public DeviceMemory {
 public:
  GpuMemory(GpuDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  ~GpuMemory() override {
    for (const Copy& copy : copies_) driver_.release(ordinal_, copy.device);
  }

  void* upload(void* host, std::size_t bytes) override {
    if (!host) return nullptr;
    // A kernel may be given a tensor without elements, but never a null one.
    void* const device = driver_.allocate(ordinal_, std::max<std::size_t>(bytes, 1));
    copies_.push_back({host, device, bytes});
    if (bytes > 0) driver_.copy_to_device(ordinal_, device, host, bytes);
    return device;
  }
  void download(void* host) override {
    for (const Copy& copy : copies_) {
      if (copy.host == host && copy.bytes > 0) {
        driver_.copy_from_device(ordinal_, host, copy.device, copy.bytes);
      }
    }
  }
  void synchronize() override { driver_.synchronize(ordinal_); }

 private:
  struct Copy {
    void* host;
    void* device;
    std::size_t bytes;
  };

  GpuDriver& driver_;
  int ordinal_;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<DeviceMemory> make_device_memory(const DeviceId& device) {
  if (device.platform == Platform::cpu) return std::make_unique<HostMemory>();
  const auto kind = device.platform == Platform::hip ? Kind::hip : Kind::cuda;
  return std::make_unique<GpuMemory>(gpu_driver(kind), device.ordinal);
}

}  // namespace hipflash::platform
