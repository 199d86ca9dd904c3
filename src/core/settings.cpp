#include "core/settings.h"

#include <cctype>
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

std::uint64_t size_setting(const char* name, std::uint64_t missing) {
  const std::string value = setting(name);
  if (value.empty()) return missing;
  const auto malformed = [&] {
    fail(ErrorCode::InvalidArgument,
         "{}=\"{}\" must be a number of bytes, with K, M, G or T after it if wanted", name, value);
  };
  std::uint64_t number = 0;
  std::size_t at = 0;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  while (at < value.size() && std::isdigit(static_cast<unsigned char>(value[at]))) {
    const auto digit = static_cast<std::uint64_t>(value[at++] - '0');
    if (number > (most - digit) / 10) malformed();
    number = number * 10 + digit;
  }
  if (at == 0) malformed();
  int shift = 0;
  if (at < value.size()) {
    switch (std::toupper(static_cast<unsigned char>(value[at++]))) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      case 'T':
        shift = 40;
        break;
      default:
        malformed();
    }
  }
  if (at != value.size() || number > (most >> shift)) malformed();
  return number << shift;
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
