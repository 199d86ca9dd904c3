// hipRTC, opened with dlopen: AMD code objects for any architecture, with or without a GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/compiler.h"

namespace hipflash::jit {

std::shared_ptr<Compiler> make_hiprtc_compiler(const std::string& memo_dir);

// The architectures that the installed AMD compiler knows ("gfx90a", "gfx1100", ...), asked from
// libamd_comgr: hipRTC itself aborts the process on a name it does not know. Opens the library.
// Throws Error(CompileFailed) when it is not installed.
std::vector<std::string> hiprtc_architectures();

}  // namespace hipflash::jit
