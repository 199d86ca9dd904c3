// Compiling in a process of its own: a crash, a hang or an endless appetite for memory of a
// compiler becomes an Error(CompileFailed) with the compiler's words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jit/compiler.h"

namespace hipflash::jit {

// hipflash-compile: HIPFLASH_COMPILE_HELPER, else beside the library or the program, ../bin or
// ../libexec/hipflash of there, or in the build tree. Empty when not found.
// HIPFLASH_COMPILE_HELPER set to something that cannot be run is an Error(CompileFailed).
std::string find_compile_helper();

// Runs the job in a fresh `helper` process and returns the code object.
std::vector<std::byte> compile_in_helper(const std::string& helper, const CompileJob& job);

}  // namespace hipflash::jit
