// Compiles the text of a GPU kernel for the host, by the system's compiler, into a shared object
// that AddressSanitizer and UndefinedBehaviorSanitizer watch, linked with the runtime that answers
// what the text asks the host for (HOST_GPU_RUNTIME). hiprtc.cpp and nvrtc.cpp are this by two
// names: the functions that both have are HOST_RTC(name), those for code HOST_RTC_CODE(name).
#pragma once

#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace host_device {

namespace fs = std::filesystem;

struct Program {
  std::string text, log, code;
};

inline std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the runtime calls: the architecture, and each entry with its arguments as bytes.
inline std::string entries_of(const std::string& text, const std::string& arch) {
  std::string made = "extern \"C\" const char host_gpu_arch[] = \"" + arch + "\";\n";
  const std::regex entry(
      R"((attention_forward|attention_merge|append_kv|merge_partials)\s*\()"
      R"(\s*(?:HF_ARGUMENTS\()?\s*(?:const\s+)?(?:__grid_constant__\s+)?(?:hipflash::)?)"
      R"((AttentionArgs|AppendArgs|MergeArgs)\)?\s+args(,\s*const __grid_constant__ TensorMap q_map)?)");
  for (std::sregex_iterator found(text.begin(), text.end(), entry), end; found != end; ++found) {
    const std::string name = (*found)[1], type = (*found)[2];
    const bool maps = (*found)[3].matched;  // those of Q, K and V follow
    made += "extern \"C\" const unsigned host_gpu_sizes_" + name + "[] = {sizeof(" + type + "), " +
            (maps ? "128, 128, 128, " : "") + "0};\n";
    made += "extern \"C\" void host_gpu_call_" + name +
            "(void* arguments) { auto& args = *static_cast<" + type + "*>(arguments); ";
    if (maps) made += "TensorMap maps[3]; std::memcpy(maps, &args + 1, sizeof(maps)); ";
    made += name + (maps ? "(args, maps[0], maps[1], maps[2]); }\n" : "(args); }\n");
  }
  return made;
}

// True if it compiles.
inline bool compile(Program& program, const std::string& arch, const std::string& options) {
  std::string name = (fs::temp_directory_path() / "host-rtc-XXXXXX").string();
  if (!::mkdtemp(name.data())) return false;
  const fs::path folder = name;
  std::ofstream file(folder / "kernel.cpp");
  file << program.text;
  // A text that only tries the compiler has nothing of the library's.
  if (program.text.find("namespace hipflash") != std::string::npos) {
    file << "using namespace hipflash;\n" << entries_of(program.text, arch);
  }
  file.close();
  // The compiler is a program like any other: not watched.
  const std::string command =
      "cd '" + name +
      "' && env -u LD_PRELOAD " HOST_GPU_CXX
      " -std=c++20 -D__global__= -shared -fPIC -fno-gnu-unique -w " HOST_GPU_OPTIONS " " +
      options + " kernel.cpp '" HOST_GPU_RUNTIME "' -o kernel.so >log 2>&1";
  const bool good = std::system(command.c_str()) == 0;
  program.log = content(folder / "log");
  if (good) program.code = content(folder / "kernel.so");
  fs::remove_all(folder);
  return good;
}

// The value of the option that begins with `name`.
inline std::string option(int count, const char* const* options, const std::string& name) {
  for (int i = 0; i < count; ++i) {
    if (std::string(options[i]).rfind(name, 0) == 0) return options[i] + name.size();
  }
  return {};
}

}  // namespace host_device

#define RTC extern "C" __attribute__((visibility("default")))

RTC const char* HOST_RTC(GetErrorString)(int) {
  return "the host's compiler failed";
}
RTC int HOST_RTC(CreateProgram)(host_device::Program** program, const char* text, const char*, int,
                                const char* const*, const char* const*) {
  *program = new host_device::Program{text, {}, {}};
  return 0;
}
RTC int HOST_RTC(DestroyProgram)(host_device::Program** program) {
  delete *program;
  return 0;
}
RTC int HOST_RTC(GetProgramLogSize)(host_device::Program* program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return 0;
}
RTC int HOST_RTC(GetProgramLog)(host_device::Program* program, char* log) {
  std::strcpy(log, program->log.c_str());
  return 0;
}
RTC int HOST_RTC_CODE(Size)(host_device::Program* program, std::size_t* bytes) {
  *bytes = program->code.size();
  return 0;
}
RTC int HOST_RTC_CODE()(host_device::Program* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return 0;
}
