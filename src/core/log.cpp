#include "core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "core/settings.h"

namespace hipflash {
namespace {

spdlog::level::level_enum parse_level(const std::string& name, bool& known) {
  known = true;
  if (name == "off") return spdlog::level::off;
  if (name == "error") return spdlog::level::err;
  if (name == "warn" || name.empty()) return spdlog::level::warn;
  if (name == "info") return spdlog::level::info;
  if (name == "debug") return spdlog::level::debug;
  known = false;
  return spdlog::level::warn;
}

spdlog::level::level_enum convert(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

// Never registered with spdlog and never destroyed: lines may be written while the process exits.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    const std::string file = setting("HIPFLASH_LOG_FILE");
    spdlog::sink_ptr sink;
    std::string trouble;
    if (!file.empty()) {
      try {
        sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
      } catch (const spdlog::spdlog_ex& error) {
        trouble = error.what();
      }
    }
    if (!sink) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto* made = new spdlog::logger("hipflash", sink);
    made->set_pattern("[%n] %l: %v");
    bool known = false;
    const std::string level = setting("HIPFLASH_LOG");
    made->set_level(parse_level(level, known));
    made->flush_on(spdlog::level::debug);
    made->set_error_handler([](const std::string&) {});
    if (!known) {
      made->warn("HIPFLASH_LOG=\"{}\" is not one of off, error, warn, info, debug; using warn",
                 level);
    }
    if (!trouble.empty()) made->warn("HIPFLASH_LOG_FILE: {}; writing to stderr", trouble);
    return made;
  }();
  return *instance;
}

}  // namespace

bool log_enabled(LogLevel level) noexcept {
  try {
    return logger().should_log(convert(level));
  } catch (...) {
    return false;
  }
}

void log_line(LogLevel level, std::string_view line) noexcept {
  try {
    logger().log(convert(level), "{}", line);
  } catch (...) {  // a log line that cannot be written must not become the caller's failure
  }
}

}  // namespace hipflash
