// One compilation by hipRTC or NVRTC: their program interfaces are the same under two prefixes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jit/compiler.h"
#include "jit/shared_library.h"

namespace hipflash::jit {

// What the two vendors spell differently.
struct RtcDialect {
  const char* product;              // "hipRTC"
  const char* prefix;               // "hiprtc", before every function's name
  const char* code;                 // "Code" in hiprtcGetCode and hiprtcGetCodeSize
  const char* file;                 // the name that the compiler gives the text in its messages
  const char* architecture_option;  // "--offload-arch="
};

class RtcPrograms {
 public:
  // Opens the library at `path`. Throws Error(CompileFailed) naming what it lacks.
  RtcPrograms(const RtcDialect& dialect, const std::string& path);

  // The code object of the job's text. Throws Error(CompileFailed, sentence, compiler's words).
  std::vector<std::byte> compile(const CompileJob& job) const;

  const SharedLibrary& library() const noexcept { return library_; }

 private:
  std::string log_of(void* program) const;
  void check(const CompileJob& job, const char* function, int result,
             const std::string& log = {}) const;

  const RtcDialect dialect_;
  SharedLibrary library_;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*code_size_)(void*, std::size_t*) = nullptr;
  int (*code_)(void*, char*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace hipflash::jit
