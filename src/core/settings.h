// The settings that come from the environment. The table in README.md documents each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hipflash {

// The value of an environment variable, empty when unset. Ignored (as empty) in a set-user-id
// process.
std::string setting(const char* name);

// True for 1, true, yes, on; false for empty, 0, false, no, off; else InvalidArgument naming it.
bool bool_setting(const char* name);

// A byte count such as 512M or 2g (powers of 1024); nothing if it is malformed or too large.
std::optional<std::uint64_t> parse_size(std::string_view text);

// A byte count; `missing` when unset. InvalidArgument if malformed.
std::uint64_t size_setting(const char* name, std::uint64_t missing);

// HIPFLASH_CACHE_MAX: most bytes of the user cache. And most entries, which no variable sets.
constexpr std::uint64_t kDefaultCacheBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kDefaultCacheEntries = 10000;
std::uint64_t cache_max_setting();

// The parts of a colon-separated list, empty parts dropped.
std::vector<std::string> list_setting(const char* name);

// HIPFLASH_COMPILE.
enum class CompileMode { automatic, process, in_process, never };
CompileMode compile_mode_setting();

}  // namespace hipflash
