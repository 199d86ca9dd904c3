#include "core/seconds_setting.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "core/fail.h"
#include "core/settings.h"

namespace hipflash {

double seconds_setting(const char* name, double missing) {
  const std::string text = setting(name);
  if (text.empty()) return missing;
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(seconds) || seconds <= 0 || seconds > 86400) {
    fail(ErrorCode::InvalidArgument,
         "{}=\"{}\" must be a number of seconds above 0 and up to 86400", name, text);
  }
  return seconds;
}

}  // namespace hipflash
