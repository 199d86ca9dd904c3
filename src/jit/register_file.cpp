#include "jit/register_file.h"

#include <algorithm>

namespace hipflash::jit {
namespace {

struct RegisterFile {
  int registers;  // of one lane of a SIMD, to be shared by its waves
  int granule;    // they are given out in multiples of this
  int max_waves;
};

bool is_one_of(std::string_view arch, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), arch) != names.end();
}

// By the numbers of the LLVM AMDGPU backend.
std::optional<RegisterFile> amd_file(std::string_view arch, int wave_lanes) {
  if (is_one_of(arch, {"gfx90a", "gfx942", "gfx950"})) return RegisterFile{512, 8, 8};
  if (arch.substr(0, 4) == "gfx9") return RegisterFile{256, 4, 10};
  const bool rdna =
      arch.substr(0, 5) == "gfx10" || arch.substr(0, 5) == "gfx11" || arch.substr(0, 5) == "gfx12";
  if (!rdna) return std::nullopt;
  // A wave of 64 lanes takes two rows of the file for each register.
  const int halves = wave_lanes == 64 ? 2 : 1;
  if (is_one_of(arch, {"gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"})) {
    return RegisterFile{1536 / halves, 24 / halves, 16};
  }
  if (arch.substr(0, 6) == "gfx101") return RegisterFile{1024 / halves, 8 / halves, 20};
  return RegisterFile{1024 / halves, 16 / halves, 16};
}

// 65536 registers of a multiprocessor, four schedulers, warps of 32.
std::optional<RegisterFile> nvidia_file(std::string_view arch) {
  if (is_one_of(arch, {"sm_75"})) return RegisterFile{512, 8, 8};
  if (is_one_of(arch, {"sm_86", "sm_87", "sm_89", "sm_120", "sm_121"})) {
    return RegisterFile{512, 8, 12};
  }
  return RegisterFile{512, 8, 16};
}

// Waves that a file of `registers` has room for when each takes `count`.
int room(int registers, int granule, int count) {
  const int taken = (std::max(count, 1) + granule - 1) / granule * granule;
  return registers / taken;
}

}  // namespace

std::optional<int> waves_per_simd(std::string_view arch, int wave_lanes, int vector, int scalar) {
  arch = arch.substr(0, arch.find(':'));
  const bool nvidia = arch.substr(0, 3) == "sm_";
  const auto file = nvidia ? nvidia_file(arch) : amd_file(arch, wave_lanes);
  if (!file || vector < 0 || vector > 4096) return std::nullopt;
  int waves = std::min(file->max_waves, room(file->registers, file->granule, vector));
  // GCN and CDNA share 800 scalar registers; later cards give every wave its full set.
  if (arch.substr(0, 4) == "gfx9" && scalar > 0 && scalar <= 4096) {
    waves = std::min(waves, room(800, 16, scalar));
  }
  return waves;
}

}  // namespace hipflash::jit
