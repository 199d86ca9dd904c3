// Which machine a tuning result is for. The tuner and every Context take it from here.
#pragma once

#include <string>

#include "platform/device.h"

namespace hipflash::autotune {

struct Fingerprint {
  std::string platform;   // "cpu", "hip", "cuda"
  std::string name;       // of the card or processor
  std::string arch;       // with feature flags: "gfx942:sramecc+:xnack-", "cpu-avx512"
  int compute_units = 0;  // CPU: threads
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

Fingerprint fingerprint_of(const platform::DeviceFacts& facts);

// Whether results of one may serve the other: one architecture, feature flags aside, and on the CPU
// one model too, since caches differ between models that share instructions.
bool is_relative(const Fingerprint& a, const Fingerprint& b);

// The architecture as a file name: "gfx942", "sm_90a", "cpu-avx512".
std::string architecture_stem(const Fingerprint& device);

// A file name without extension, different for different fingerprints: "gfx942-0123456789ab".
std::string file_stem(const Fingerprint& device);

}  // namespace hipflash::autotune
