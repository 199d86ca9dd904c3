// hipflash-compile: one compile job on standard input, its result on standard output.
// Started by the library; see helper_protocol.h for what it reads and writes.
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <string>

#include "hipflash/error.h"
#include "jit/helper_protocol.h"

namespace {

using namespace hipflash;
using namespace hipflash::jit;

std::string read_all(int fd) {
  std::string text;
  char block[65536];
  for (;;) {
    const ssize_t got = ::read(fd, block, sizeof block);
    if (got > 0) {
      text.append(block, static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return text;
    }
  }
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno != EINTR) return false;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

CompileResult run(std::string_view message) {
  CompileResult result;
  try {
    CompileJob job = decode_job(message);
    job.in_helper = true;
    // Whoever started this enforces the limit; this is for when that process died.
    ::alarm(static_cast<unsigned>(std::ceil(job.limits.seconds)) + 10);
    result.object = make_inline_compiler(job.compiler)->compile(job);
    result.ok = true;
  } catch (const Error& error) {
    result.sentence = error.what();
    result.log = error.log();
  } catch (const std::exception& error) {
    result.sentence = std::string("hipflash-compile: ") + error.what();
  }
  return result;
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1 || ::isatty(STDIN_FILENO)) {
    std::fputs("hipflash-compile is started by libhipflash and takes no arguments\n", stderr);
    return 2;
  }
  const std::string message = read_all(STDIN_FILENO);
  // Compilers print to standard output when they like; only the result may go there.
  const int out = ::dup(STDOUT_FILENO);
  if (out < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  const bool written = write_all(out, encode(run(message)));
  std::fflush(nullptr);
  ::_exit(written ? 0 : 1);  // skips the exit handlers of compiler libraries, some of which crash
}
