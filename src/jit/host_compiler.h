// The system's C++ compiler, for CPU kernels.
#pragma once

#include <string>
#include <vector>

#include "jit/compiler.h"

namespace hipflash::jit {

// What every CPU kernel is compiled with, to start Spec::options from: position-independent shared
// object, C++17, optimized, no libstdc++, no exceptions, strict IEEE infinities and NaNs.
// Instruction set flags come after it.
std::vector<std::string> host_base_options();

// The compiler to use: HIPFLASH_CXX, else the one that the library was built with, else the first
// of c++, g++, clang++ on PATH. Empty when there is none. HIPFLASH_CXX set to something that cannot
// be run is an Error(CompileFailed), never a silent choice of another compiler.
std::string find_host_compiler();

std::shared_ptr<Compiler> make_host_compiler(const std::string& memo_dir);

}  // namespace hipflash::jit
