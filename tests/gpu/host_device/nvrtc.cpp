// An NVRTC that compiles for the host device (cuda_driver.cpp): the text of a GPU kernel, which
// HF_HOST makes C++ in the words of gpu/tile/nv/host.h.
#define HOST_RTC(name) nvrtc##name
#define HOST_RTC_CODE(name) nvrtcGetCUBIN##name
#include "gpu/host_device/host_compiler.h"

// Those whose families have words for the host.
RTC int nvrtcGetNumSupportedArchs(int* count) {
  *count = 5;
  return 0;
}
RTC int nvrtcGetSupportedArchs(int* archs) {
  constexpr int kArchs[] = {80, 86, 89, 90, 120};
  std::memcpy(archs, kArchs, sizeof kArchs);
  return 0;
}
RTC int nvrtcCompileProgram(host_device::Program* program, int count, const char* const* options) {
  const std::string arch = host_device::option(count, options, "--gpu-architecture=");
  return host_device::compile(*program, arch, "-DHF_HOST -D__CUDACC__") ? 0 : 6;
}
