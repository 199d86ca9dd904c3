// hipflash-compile: one compile job on standard input, its result on standard output.
// Started by the library; see helper_protocol.h for what it reads and writes.
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

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

// Ends this process, the compiler and the temporary files when the process that wants the result
// has died. The library keeps its end of standard input, a socket, until it has the result.
void follow_parent_into_death(const std::string& folder) {
  struct stat status {};
  const bool own_group = ::getpgrp() == ::getpid();
  if (!own_group || ::fstat(STDIN_FILENO, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  std::thread([folder] {
    pollfd parent = {STDIN_FILENO, 0, 0};
    while (::poll(&parent, 1, -1) < 0 && errno == EINTR) {
    }
    ::kill(0, SIGTERM);  // the compiler; ignored here
    std::error_code ignored;
    for (int i = 0; i < 20; ++i) {  // what dies may still be writing
      std::filesystem::remove_all(folder, ignored);
      ::usleep(10000);
    }
    ::kill(0, SIGKILL);
  }).detach();
}

CompileResult run(std::string_view message) {
  CompileResult result;
  try {
    CompileJob job = decode_job(message);
    job.in_helper = true;
    follow_parent_into_death(job.folder);
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
  // Death is a matter of follow_parent_into_death().
  for (const int signal : {SIGTERM, SIGPIPE}) std::signal(signal, SIG_IGN);
  const std::string message = read_all(STDIN_FILENO);
  // Compilers print to standard output when they like; only the result may go there.
  const int out = ::dup(STDOUT_FILENO);
  if (out < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  const bool written = write_all(out, encode(run(message)));
  std::fflush(nullptr);
  if (!written) {  // nobody is there: follow_parent_into_death() does the rest
    ::alarm(2);
    ::pause();
  }
  ::_exit(0);  // skips the exit handlers of compiler libraries, some of which crash
}
