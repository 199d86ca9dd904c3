/// \file
/// Devices and streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hipflash/export.h"

namespace hipflash {

/// How a kind of device is reached.
enum class Platform : int { cpu = 0, hip = 1, cuda = 2 };

/// "cpu", "hip" or "cuda".
HIPFLASH_EXPORT const char* to_string(Platform platform) noexcept;

/// One device: `DeviceId{Platform::hip, 0}` is the first AMD GPU.
struct DeviceId {
  Platform platform = Platform::cpu;
  int ordinal = 0;

  friend bool operator==(const DeviceId& a, const DeviceId& b) noexcept {
    return a.platform == b.platform && a.ordinal == b.ordinal;
  }
};

/// Parses "cpu", "hip", "hip:1", "cuda:0".
/// \throws Error InvalidArgument if the text is none of these.
HIPFLASH_EXPORT DeviceId parse_device(const std::string& text);

/// "cpu", "hip:0", "cuda:1".
HIPFLASH_EXPORT std::string to_string(const DeviceId& device);

/// The device that HIPFLASH_DEVICE names, else the first AMD GPU, else the first NVIDIA GPU, else
/// the CPU. \throws Error InvalidArgument if HIPFLASH_DEVICE is malformed.
HIPFLASH_EXPORT DeviceId default_device();

/// What is known about a device.
struct DeviceInfo {
  DeviceId id;
  std::string name;  ///< For people: "AMD Instinct MI300X", "AMD EPYC 9354".
  std::string
      arch;  ///< What kernels are compiled for: "gfx942:sramecc+:xnack-", "sm_90a", "cpu-avx512".
  int compute_units = 0;         ///< GPU: compute units; CPU: threads that hipflash uses.
  std::size_t memory_bytes = 0;  ///< Total memory, 0 if unknown.
  std::string compiler;          ///< Which compiler serves it; empty when there is none.
  std::vector<std::string>
      notes;  ///< What a user should know, such as an instruction set that is switched off.
};

/// Every device that can be used now. The CPU is always there and comes last.
HIPFLASH_EXPORT std::vector<DeviceInfo> devices();

/// A stream of the caller: `hipStream_t` or `CUstream`. Null is the default stream; ignored on the
/// CPU.
struct Stream {
  void* handle = nullptr;
};

}  // namespace hipflash
