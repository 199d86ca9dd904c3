// The part of libamd_comgr that says what hipRTC compiles for: here the architectures whose text
// has words for the host.
#include <cstddef>

namespace {
constexpr const char* kNames[] = {
    "amdgcn-amd-amdhsa--gfx906",  "amdgcn-amd-amdhsa--gfx908",  "amdgcn-amd-amdhsa--gfx90a",
    "amdgcn-amd-amdhsa--gfx942",  "amdgcn-amd-amdhsa--gfx950",  "amdgcn-amd-amdhsa--gfx1030",
    "amdgcn-amd-amdhsa--gfx1100", "amdgcn-amd-amdhsa--gfx1151", "amdgcn-amd-amdhsa--gfx1201"};
}

extern "C" __attribute__((visibility("default"))) int amd_comgr_get_isa_count(std::size_t* count) {
  *count = sizeof kNames / sizeof *kNames;
  return 0;
}
extern "C" __attribute__((visibility("default"))) int amd_comgr_get_isa_name(std::size_t i,
                                                                             const char** name) {
  *name = kNames[i];
  return 0;
}
