// Names of the public enumerations, and device names both ways.
#include <charconv>
#include <string_view>

#include "core/fail.h"
#include "hipflash/cache.h"
#include "hipflash/device.h"
#include "hipflash/tensor.h"

namespace hipflash {

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
  }
  return "unknown dtype";
}

std::size_t size_of(DType dtype) noexcept {
  return dtype == DType::f32 ? 4 : 2;
}

const char* to_string(Platform platform) noexcept {
  switch (platform) {
    case Platform::cpu:
      return "cpu";
    case Platform::hip:
      return "hip";
    case Platform::cuda:
      return "cuda";
  }
  return "unknown platform";
}

const char* to_string(Tier tier) noexcept {
  switch (tier) {
    case Tier::memory:
      return "memory";
    case Tier::disk:
      return "disk";
    case Tier::prebuilt:
      return "prebuilt";
    case Tier::compiled:
      return "compiled";
  }
  return "unknown tier";
}

DeviceId parse_device(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = std::string_view(text).substr(0, colon);
  DeviceId id;
  bool good = true;
  if (kind == "cpu") {
    id.platform = Platform::cpu;
  } else if (kind == "hip") {
    id.platform = Platform::hip;
  } else if (kind == "cuda") {
    id.platform = Platform::cuda;
  } else {
    good = false;
  }
  if (good && colon != std::string::npos) {
    const char* const first = text.data() + colon + 1;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, id.ordinal);
    good = error == std::errc() && end == last && first != last && id.ordinal >= 0 &&
           (id.platform != Platform::cpu || id.ordinal == 0);
  }
  if (!good) {
    fail(ErrorCode::InvalidArgument, "device = \"{}\" must be cpu, hip:N or cuda:N", text);
  }
  return id;
}

std::string to_string(const DeviceId& device) {
  if (device.platform == Platform::cpu) return "cpu";
  return fmt::format("{}:{}", to_string(device.platform), device.ordinal);
}

}  // namespace hipflash
