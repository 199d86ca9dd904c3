// How many waves the registers of a kernel leave room for.
#pragma once

#include <optional>
#include <string_view>

namespace hipflash::jit {

// Waves of one SIMD (AMD) or warps of one scheduler (NVIDIA) at a time, as far as registers decide;
// empty for an unknown architecture. `arch` may carry feature flags. `vector` counts the registers
// of a lane, accumulation registers of the same file included; `scalar` those of a wave.
std::optional<int> waves_per_simd(std::string_view arch, int wave_lanes, int vector, int scalar);

}  // namespace hipflash::jit
