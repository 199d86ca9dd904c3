// Whether a compiler works: asked once in a while, not at every call.
//
// A compiler that is there may be of no use all the same: without an assembler, too old for the
// architecture, not answering. Finding that out takes processes, so it is remembered for a short
// time, after which a repaired or newly installed compiler is noticed.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "hipflash/error.h"
#include "jit/compiler.h"

namespace hipflash::jit {

class CompilerHealth {
 public:
  // `may_compile` false: nobody will compile, so trouble is of no interest and not logged.
  CompilerHealth(std::shared_ptr<Compiler> compiler, bool may_compile);

  Compiler& compiler() const noexcept { return *compiler_; }

  // As Compiler::identify(); a failure is remembered. One warning if there is a compiler and it
  // does not say what it is.
  Identity identify();

  // Why nothing can be compiled for `arch`, as far as is known; empty: it may work.
  std::optional<Error> trouble(const std::string& arch);

  // After `job` failed: whether the compiler can make anything at all with the same options. If
  // not, trouble() says so from now on, and there is one warning with the compiler's words. So a
  // fault of a kernel's text is told from one of the compiler.
  bool works(const CompileJob& job);

 private:
  using Clock = std::chrono::steady_clock;
  struct Finding {
    Clock::time_point when;
    std::optional<Error> error;  // empty: it works
  };

  static bool recent(const Finding& finding);
  void announce(const Error& error) const;

  const std::shared_ptr<Compiler> compiler_;
  const bool may_compile_;
  std::mutex probing_;  // held while works() compiles, so that one thread finds out for all
  std::mutex mutex_;    // guards what follows; not held while compiling
  std::optional<Finding> not_identified_;
  std::map<std::string, Finding> by_arch_;
};

}  // namespace hipflash::jit
