// A hipRTC that compiles for the host device (hip_runtime.cpp): the text of a GPU kernel, which is
// C++ in the words of gpu/tile/amd/host.h where no GPU compiler reads it.
#define HOST_RTC(name) hiprtc##name
#define HOST_RTC_CODE(name) hiprtcGetCode##name
#include "gpu/host_device/host_compiler.h"

RTC int hiprtcCompileProgram(host_device::Program* program, int count, const char* const* options) {
  const std::string arch = host_device::option(count, options, "--offload-arch=");
  // gfx1201:... is of generation 12, gfx90a of 9.
  const std::string model = arch.substr(0, arch.find(':'));
  const std::string generation = model.substr(3, model.size() - 5);
  return host_device::compile(*program, arch, "-DHF_HOST_GFX=" + generation) ? 0 : 6;
}
