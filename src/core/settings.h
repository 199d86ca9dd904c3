// The settings that come from the environment. The table in README.md documents each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipflash {

// The value of an environment variable, empty when unset. Ignored (as empty) in a set-user-id
// process.
std::string setting(const char* name);

// True for 1, true, yes, on; false for empty, 0, false, no, off; else InvalidArgument naming it.
bool bool_setting(const char* name);

// A byte count such as 512M or 2G (powers of 1024); `missing` when unset. InvalidArgument if
// malformed.
std::uint64_t size_setting(const char* name, std::uint64_t missing);

// The parts of a colon-separated list, empty parts dropped.
std::vector<std::string> list_setting(const char* name);

// HIPFLASH_COMPILE.
enum class CompileMode { automatic, process, in_process, never };
CompileMode compile_mode_setting();

}  // namespace hipflash
