#include "hipflash/error.h"

#include <utility>

namespace hipflash {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return "InvalidArgument";
    case ErrorCode::NotSupported:
      return "NotSupported";
    case ErrorCode::NoDevice:
      return "NoDevice";
    case ErrorCode::CompileFailed:
      return "CompileFailed";
    case ErrorCode::CacheUnusable:
      return "CacheUnusable";
    case ErrorCode::LaunchFailed:
      return "LaunchFailed";
    case ErrorCode::OutOfMemory:
      return "OutOfMemory";
    case ErrorCode::Internal:
      return "Internal";
  }
  return "unknown error code";
}

Error::Error(ErrorCode code, const std::string& message, std::string log)
    : std::runtime_error(message), code_(code), log_(std::move(log)) {}

Error::~Error() = default;

}  // namespace hipflash
