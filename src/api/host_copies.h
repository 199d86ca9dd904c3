// Copies of what lies on a device, for HIPFLASH_VERIFY.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "api/extents.h"
#include "hipflash/device.h"
#include "platform/gpu/driver.h"

namespace hipflash::api {

// The runtime of a GPU.
platform::GpuDriver& driver_of(const DeviceId& device);

// Whether results of a call on `stream` can be looked at. One that a graph records has none yet,
// and waiting for a device breaks what a stream of it records: one line in the log says so.
bool verifiable(const DeviceId& device, Stream stream);

// Copies of tensors of a device, or of the host, addressed like the originals. Waits for the device
// when made.
class HostCopies {
 public:
  explicit HostCopies(const DeviceId& device);

  // `data` is the element at index 0 of a tensor with these extents. Returns its twin; null if
  // there is nothing.
  const void* copy(const void* data, std::size_t element, std::initializer_list<Extent> extents);

  template <class T>
  void replace(T*& data, std::size_t element, std::initializer_list<Extent> extents) {
    data = static_cast<T*>(const_cast<void*>(copy(data, element, extents)));
  }

 private:
  DeviceId device_;
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace hipflash::api
