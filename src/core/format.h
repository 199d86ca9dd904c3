// fmt, header-only, with its big template compiled once (in format.cpp) instead of in every file: a
// source file then compiles three times faster and its object is a sixth of the size.
#pragma once

#include <spdlog/fmt/fmt.h>

#if FMT_VERSION < \
    110000  // later ones declare it otherwise, and then it is compiled where it is used
// NOLINTBEGIN(bugprone-macro-parentheses): a storage class takes none
#define HIPFLASH_FMT_ONCE(prefix)                                                                 \
  FMT_BEGIN_NAMESPACE                                                                             \
  namespace detail {                                                                              \
  prefix template void vformat_to<char>(buffer<char>&, basic_string_view<char>,                   \
                                        basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref); \
  }                                                                                               \
  FMT_END_NAMESPACE
// NOLINTEND(bugprone-macro-parentheses)
HIPFLASH_FMT_ONCE(extern)
#endif
