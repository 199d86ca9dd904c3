// What the runtimes of the host device (hip_runtime.cpp, cuda_driver.cpp) have in common: results,
// devices, the memory of devices.
//
// HOST_GPU_ARCHS lists the architectures, one for each device.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace host_device {

// hipError_t and CUresult, which agree in these.
enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kLaunchFailure = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
};

// Of all devices; of one, `otherwise`, if nobody named any. Never destroyed, as all that follows:
// contexts may live until the process ends.
inline const std::vector<std::string>& archs(const char* otherwise) {
  static const auto& all = *new std::vector<std::string>([otherwise] {
    const char* const named = std::getenv("HOST_GPU_ARCHS");
    std::istringstream words(named ? named : otherwise);
    std::vector<std::string> names;
    for (std::string word; std::getline(words, word, ',');) names.push_back(word);
    return names;
  }());
  return all;
}

struct Memory {
  std::size_t bytes;
  int device;
};
inline std::map<const char*, Memory>& memory() {
  static auto& all = *new std::map<const char*, Memory>;
  return all;
}

// Memory full of NaN; null if there is none.
inline void* take(std::size_t bytes, int device) {
  // Kernels may read the whole of a last word.
  const std::size_t whole = (bytes + 3) / 4 * 4;
  void* data = nullptr;
  if (whole == 0 || ::posix_memalign(&data, 256, whole) != 0) return nullptr;
  std::memset(data, 0xff, whole);
  memory()[static_cast<const char*>(data)] = {bytes, device};
  return data;
}

inline int give_back(void* data) {
  if (!data) return kSuccess;
  if (memory().erase(static_cast<const char*>(data)) == 0) return kInvalidValue;
  std::free(data);
  return kSuccess;
}

// The device whose memory it is.
inline int find_owner(int* device, const void* data) {
  const char* const at = static_cast<const char*>(data);
  auto next = memory().upper_bound(at);
  if (next == memory().begin()) return kInvalidValue;
  const auto& [base, block] = *--next;
  if (at >= base + block.bytes) return kInvalidValue;
  *device = block.device;
  return kSuccess;
}

}  // namespace host_device
