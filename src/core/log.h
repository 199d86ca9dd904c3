// Logging. One process-wide logger named "hipflash", configured from HIPFLASH_LOG and
// HIPFLASH_LOG_FILE at the first line written; it never throws into the caller.
#pragma once

#include <string>
#include <string_view>

#include "core/format.h"

namespace hipflash {

enum class LogLevel { error, warn, info, debug };

bool log_enabled(LogLevel level) noexcept;
void log_line(LogLevel level, std::string_view line) noexcept;

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hipflash
