#include "api/host_copies.h"

#include <cstring>
#include <mutex>

#include "core/log.h"

namespace hipflash::api {

platform::GpuDriver& driver_of(const DeviceId& device) {
  return platform::gpu_driver(device.platform == Platform::hip ? platform::Kind::hip
                                                               : platform::Kind::cuda);
}

bool verifiable(const DeviceId& device, Stream stream) {
  if (device.platform == Platform::cpu || !driver_of(device).capturing(stream)) return true;
  static std::once_flag said;
  std::call_once(said, [] {
    log(LogLevel::warn,
        "HIPFLASH_VERIFY: calls that a graph records are not verified, and neither are its runs");
  });
  return false;
}

HostCopies::HostCopies(const DeviceId& device) : device_(device) {
  if (device.platform != Platform::cpu) driver_of(device).synchronize(device.ordinal);
}

const void* HostCopies::copy(const void* data, std::size_t element,
                             std::initializer_list<Extent> extents) {
  std::int64_t low = 0, high = 0;  // offsets of the first and last element
  for (const auto [size, stride] : extents) {
    if (size == 0 || !data) return nullptr;
    (stride < 0 ? low : high) += (size - 1) * stride;
  }
  const std::int64_t first = low * static_cast<std::int64_t>(element);
  auto& bytes = copies_.emplace_back(static_cast<std::size_t>(high - low + 1) * element);
  const std::byte* const from = static_cast<const std::byte*>(data) + first;
  if (device_.platform == Platform::cpu) {
    std::memcpy(bytes.data(), from, bytes.size());
  } else {
    driver_of(device_).copy_from_device(device_.ordinal, bytes.data(), from, bytes.size());
  }
  return bytes.data() - first;
}

}  // namespace hipflash::api
