// What a code object says about itself: registers, shared memory, scratch, spills, code sizes.
#pragma once

#include <span>
#include <string>

#include "hipflash/inspect.h"

namespace hipflash::jit {

// As hipflash::read_code_facts().
CodeFacts read_code_facts(std::span<const std::byte> code, const std::string& arch = {});

}  // namespace hipflash::jit
