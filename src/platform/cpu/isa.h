// Which instruction set the CPU kernels may use, by CPUID and XGETBV: what the CPU has and the
// operating system saves.
#pragma once

#include <string>
#include <vector>

#include "cpu/tiles.h"

namespace hipflash::platform {

struct IsaReport {
  CpuIsa best = CpuIsa::portable;     // of those that work; the values are ordered
  CpuIsa fastest = CpuIsa::portable;  // what "auto" takes
  std::vector<std::string> notes;     // why something faster is not used
};

// Of this machine; computed once.
const IsaReport& isa_report();

// The set that `name` asks for ("" or "auto": the fastest). InvalidArgument if it is unknown or the
// CPU lacks it: a slower set is never taken silently.
CpuIsa choose_isa(const std::string& name, const char* asked_by = "HIPFLASH_CPU_ISA");

// The instruction set that serves an element type when `isa` is available: avx512_bf16 is for bf16.
CpuIsa isa_for(CpuIsa isa, ElementType element) noexcept;

// The architecture string of a Spec: "cpu-avx512", "cpu-portable-aarch64".
std::string arch_of(CpuIsa isa);

// Bytes of the last-level cache; a common size where the system does not tell.
long long last_level_cache_bytes() noexcept;

}  // namespace hipflash::platform
