// NVRTC, opened with dlopen: NVIDIA cubins for any architecture, with or without a GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/compiler.h"

namespace hipflash::jit {

std::shared_ptr<Compiler> make_nvrtc_compiler(const std::string& memo_dir);

// The architectures that the installed NVRTC knows ("sm_80", "sm_90", ...). Opens the library.
std::vector<std::string> nvrtc_architectures();

}  // namespace hipflash::jit
