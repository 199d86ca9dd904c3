// Running a child process with a time limit, a memory limit and all of its output.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.h"

namespace hipflash::jit {

struct ProcessRequest {
  std::string path;                    // of the executable, not searched
  std::vector<std::string> arguments;  // after the name
  std::string_view input;              // its standard input
  std::vector<std::string> environment = child_environment({}, {});
  CompileLimits limits;
  std::stop_token stop;   // once asked for, the child is killed as at the end of its time
  bool own_group = true;  // false inside hipflash-compile, so that whoever kills it kills all

  // This process's environment with `set` ("NAME=value") over it and `drop` (names) out of it.
  static std::vector<std::string> child_environment(const std::vector<std::string>& set,
                                                    const std::vector<std::string>& drop);
};

struct ProcessResult {
  std::string out;
  std::string err;
  int exit_code = 0;  // 0 too if the program's own SIGCHLD handling took it away
  int signal = 0;     // that ended it; 0 for none
  bool timed_out = false;
  bool stopped = false;  // by the request's `stop`

  bool ended_well() const noexcept {
    return exit_code == 0 && signal == 0 && !timed_out && !stopped;
  }
};

// Runs it to its end, or to the time limit or until `stop` is asked for, when the whole process
// group is killed. No signal reaches the caller. If the caller dies, the child gets a SIGTERM, and
// its standard input, a socket whose other end is held until then, a POLLHUP. Throws
// Error(CompileFailed) if it cannot be started.
ProcessResult run_process(const ProcessRequest& request);

// "was killed by signal 11 (Segmentation fault)", "ended with exit status 1", "was still running
// after 120 s and was stopped", and which limit may be the reason.
std::string how_it_ended(const ProcessResult& result, const CompileLimits& limits);

// True for a file that this user can execute.
bool is_executable(const std::string& path);

}  // namespace hipflash::jit
