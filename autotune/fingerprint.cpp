#include "autotune/fingerprint.h"

#include "cache/key.h"
#include "core/format.h"

namespace hipflash::autotune {

Fingerprint fingerprint_of(const platform::DeviceFacts& facts) {
  return {platform::to_string(facts.kind), facts.name,           facts.arch, facts.compute_units,
          facts.memory_clock_khz,          facts.memory_bus_bits};
}

std::string architecture_stem(const Fingerprint& device) {
  std::string stem = device.arch.substr(0, device.arch.find(':'));
  for (char& c : stem) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return stem;
}

bool is_relative(const Fingerprint& a, const Fingerprint& b) {
  return a.platform == b.platform && architecture_stem(a) == architecture_stem(b) &&
         (a.platform != "cpu" || a.name == b.name);
}

std::string file_stem(const Fingerprint& device) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", device.platform, device.name, device.arch,
                  device.compute_units, device.memory_clock_khz, device.memory_bus_bits);
  return architecture_stem(device) + "-" + cache::hash_hex(text).substr(0, 12);
}

}  // namespace hipflash::autotune
