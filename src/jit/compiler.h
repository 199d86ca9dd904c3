// What turns source text into a code object, and how the right one is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/settings.h"
#include "jit/identity_memo.h"
#include "jit/spec.h"

namespace hipflash::jit {

const char* to_string(CompilerKind kind) noexcept;  // "host", "hiprtc" or "nvrtc"

// What one compilation may use.
struct CompileLimits {
  double seconds = 120.0;                               // wall clock
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  // address space of each process
};
// HIPFLASH_COMPILE_TIMEOUT (seconds) and HIPFLASH_COMPILE_MEMORY (bytes) over the defaults.
CompileLimits compile_limits_setting();

// Everything that a compiler needs, also across the pipe to the helper process.
struct CompileJob {
  CompilerKind compiler = CompilerKind::host;
  std::string source;
  std::string arch;
  std::vector<std::string> options;
  std::string label;       // for messages: family, architecture and what it is for
  std::string tool;        // the compiler's path, or the library's for hipRTC and NVRTC
  std::string folder;      // for its temporary files, removed by the caller; empty: one of its own
  bool in_helper = false;  // set by hipflash-compile
  CompileLimits limits;
  std::stop_token stop;  // ends a child process early; a compiler in this process goes on
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual CompilerKind kind() const noexcept = 0;

  // What distinguishes this compiler from others that would make other code of the same text, and
  // what people call it. Cheap after the first call in a process, and in the first one too when an
  // earlier process remembered it; one whose files were replaced since is asked anew, unless this
  // process has it open. Throws Error(CompileFailed) if there is no such compiler here, and
  // NotSupported where nobody may be asked.
  virtual Identity identify() = 0;

  // identify() as far as nobody need be asked: this process did, or an earlier one remembered the
  // answer. Never throws for what is not there.
  virtual std::optional<Identity> known() = 0;

  // The path of the compiler, or of the library that is the compiler. Throws like identify().
  virtual std::string tool() = 0;

  // Throws Error(CompileFailed, sentence, compiler's words).
  virtual std::vector<std::byte> compile(const CompileJob& job) = 0;
};

// Begins a list of architectures, at the end of an error's sentence.
inline constexpr const char* kWhichKnows = ", which knows ";

// The compiler of this kind that runs in this process: hipRTC and NVRTC by dlopen at the first
// compile; the host compiler is a child process in any case. `memo_dir` (may be empty) is where
// identities are remembered between processes.
std::shared_ptr<Compiler> make_inline_compiler(CompilerKind kind, const std::string& memo_dir = {});

// The compiler of this kind as `mode` asks: through hipflash-compile, in this process, or never.
// automatic is process, and in_process for the host compiler when hipflash-compile is missing
// (with one warning).
std::shared_ptr<Compiler> make_compiler(CompilerKind kind, CompileMode mode,
                                        const std::string& memo_dir = {});

}  // namespace hipflash::jit
