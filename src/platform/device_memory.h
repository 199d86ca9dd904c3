// Where tensors live: on the CPU in the host's own memory, on a GPU in a copy.
#pragma once

#include <cstddef>
#include <memory>

#include "hipflash/device.h"

namespace hipflash::platform {

// Everything it hands out lives until it is destroyed. Null in, null out.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // The device's address of a host buffer with the same contents.
  virtual void* upload(void* host, std::size_t bytes) = 0;
  // Brings what the device wrote there back into the host buffer that was uploaded.
  virtual void download(void* host) = 0;
  // Waits for everything launched so far.
  virtual void synchronize() = 0;
};

// Throws Error NoDevice if the platform's runtime is not there.
std::unique_ptr<DeviceMemory> make_device_memory(const DeviceId& device);

}  // namespace hipflash::platform
