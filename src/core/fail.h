// One way to fail: throw Error with a formatted sentence.
#pragma once

#include "core/format.h"
#include "hipflash/error.h"

namespace hipflash {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hipflash
