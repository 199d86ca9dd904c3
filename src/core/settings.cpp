#include "core/settings.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "core/fail.h"

namespace hipflash {

std::string setting(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

bool bool_setting(const char* name) {
  const std::string value = setting(name);
  if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
  if (value.empty() || value == "0" || value == "false" || value == "no" || value == "off") {
    return false;
  }
  fail(ErrorCode::InvalidArgument, "{}=\"{}\" must be 0 or 1", name, value);
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  if (rest == end) return value;
  constexpr std::string_view kUnits = "KMGTkmgt";
  const std::size_t unit = kUnits.find(*rest);
  if (unit == std::string_view::npos || rest + 1 != end) return std::nullopt;
  const unsigned shift = 10 * (static_cast<unsigned>(unit % 4) + 1);
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

std::uint64_t size_setting(const char* name, std::uint64_t missing) {
  const std::string value = setting(name);
  if (value.empty()) return missing;
  const auto size = parse_size(value);
  if (!size) {
    fail(ErrorCode::InvalidArgument,
         "{}=\"{}\" must be a number of bytes, with K, M, G or T after it if wanted", name, value);
  }
  return *size;
}

std::uint64_t cache_max_setting() {
  return size_setting("HIPFLASH_CACHE_MAX", kDefaultCacheBytes);
}

std::vector<std::string> list_setting(const char* name) {
  std::vector<std::string> parts;
  const std::string value = setting(name);
  std::size_t start = 0;
  while (start <= value.size()) {
    const std::size_t end = std::min(value.find(':', start), value.size());
    if (end > start) parts.push_back(value.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

CompileMode compile_mode_setting() {
  const std::string value = setting("HIPFLASH_COMPILE");
  if (value.empty() || value == "auto") return CompileMode::automatic;
  if (value == "process") return CompileMode::process;
  if (value == "inline") return CompileMode::in_process;
  if (value == "never") return CompileMode::never;
  fail(ErrorCode::InvalidArgument,
       "HIPFLASH_COMPILE=\"{}\" must be one of auto, process, inline, never", value);
}

}  // namespace hipflash
