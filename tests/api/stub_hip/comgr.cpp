// What the stand-in's compiler knows.
#include <cstddef>

extern "C" {

int amd_comgr_get_isa_count(std::size_t* count) {
  *count = 2;
  return 0;
}
int amd_comgr_get_isa_name(std::size_t index, const char** name) {
  *name = index == 0 ? "amdgcn-amd-amdhsa--gfx90a" : "amdgcn-amd-amdhsa--gfx942";
  return 0;
}

}  // extern "C"
