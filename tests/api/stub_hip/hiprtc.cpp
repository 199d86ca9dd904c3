// The compiler of the stand-in: what it makes names the architecture and the text that it was
// given. The variable STUB_HIPRTC makes it fail in another way: "crash", "hang", "silent" (an error
// without a log), "empty" (success without code), or "refuse WORD" (an error with a log for texts
// that hold the word).
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

namespace {

struct Program {
  std::string text, code, log;
};

}  // namespace

extern "C" {

extern const char* const stub_hiprtc_needs;
const char* const stub_hiprtc_needs = "libamd_comgr.so.3";

int hiprtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                        const char* const*) {
  *program = new Program{text, ""};
  return 0;
}
int hiprtcCompileProgram(void* handle, int count, const char* const* options) {
  auto& program = *static_cast<Program*>(handle);
  const char* const set = std::getenv("STUB_HIPRTC");
  const std::string mode = set ? set : "";
  if (mode == "crash") std::raise(SIGSEGV);
  if (mode == "hang") {
    for (;;) ::pause();
  }
  if (mode == "silent") return 6;
  if (mode == "empty") return 0;
  if (mode.starts_with("refuse ") && program.text.find(mode.substr(7)) != std::string::npos) {
    program.log = "the stand-in dislikes " + mode.substr(7);
    return 6;
  }
  const std::string arch = options[0];
  for (std::size_t at = arch.find(':'); at != std::string::npos; at = arch.find(':', at + 1)) {
    const std::string feature = arch.substr(at + 1, arch.find(':', at + 1) - at - 1);
    if (feature.find("sramecc") != 0 && feature.find("xnack") != 0) std::abort();  // as it does
  }
  program.code = "stub code";
  for (int i = 0; i < count; ++i) program.code += std::string(" ") + options[i];
  program.code += " " + std::to_string(std::hash<std::string>()(program.text));
  return 0;
}
int hiprtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  return 0;
}
int hiprtcGetProgramLogSize(void* program, std::size_t* size) {
  const std::string& log = static_cast<Program*>(program)->log;
  *size = log.empty() ? 0 : log.size() + 1;
  return 0;
}
int hiprtcGetProgramLog(void* program, char* log) {
  std::strcpy(log, static_cast<Program*>(program)->log.c_str());
  return 0;
}
int hiprtcGetCodeSize(void* program, std::size_t* size) {
  const std::string& code = static_cast<Program*>(program)->code;
  *size = code.empty() ? 0 : code.size() + 1;
  return 0;
}
int hiprtcGetCode(void* program, char* code) {
  std::strcpy(code, static_cast<Program*>(program)->code.c_str());
  return 0;
}
const char* hiprtcGetErrorString(int) {
  return "an error of the stand-in";
}

}  // extern "C"
