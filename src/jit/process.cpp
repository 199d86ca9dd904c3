#include "jit/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "core/fail.h"

namespace hipflash::jit {
namespace {

using Clock = std::chrono::steady_clock;

// More than any compiler has to say; a child that writes on and on is stopped by its time limit.
constexpr std::size_t kMaxOutput = std::size_t{256} << 20;

constexpr std::array kLackOfMemory = {"memory", "bad_alloc", "failed to map segment",
                                      "internal compiler error", "terminated program"};

std::string error_text(int error) {
  return std::generic_category().message(error);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const noexcept { return fd_; }
  void close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset(int fd) noexcept {
    close();
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Socket pairs, not pipes: sending to a child that is gone is an error code there, not a SIGPIPE.
struct Channel {
  Descriptor ours, theirs;

  Channel() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      fail(ErrorCode::CompileFailed, "no socket pair for a child process: {}", error_text(errno));
    }
    ours.reset(pair[0]);
    theirs.reset(pair[1]);
    // Above the standard descriptors even if the program closed those: the child's are put there.
    if (theirs.get() < 3) {
      const int moved = ::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 3);
      if (moved < 0) {
        fail(ErrorCode::CompileFailed, "no descriptor for a child process: {}", error_text(errno));
      }
      theirs.reset(moved);
    }
    ::fcntl(ours.get(), F_SETFL, ::fcntl(ours.get(), F_GETFL) | O_NONBLOCK);
  }
};

void limit_self(__rlimit_resource what, std::uint64_t most) {
  const rlimit value = {static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  ::setrlimit(what, &value);
}

// posix_spawn cannot set limits, and setting them from outside comes too late for what a quick
// child has started by then. So this is vfork, with nothing but system calls until exec and with
// all signals blocked, so that no handler of the program runs in the child on the program's memory.
pid_t start(const ProcessRequest& request, const Channel& in, const Channel& out,
            const Channel& err) {
  std::vector<char*> arguments, environment;
  arguments.push_back(const_cast<char*>(request.path.c_str()));
  for (const auto& one : request.arguments) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  for (const auto& one : request.environment) environment.push_back(const_cast<char*>(one.c_str()));
  environment.push_back(nullptr);

  const int descriptors[3] = {in.theirs.get(), out.theirs.get(), err.theirs.get()};
  const std::uint64_t memory = request.limits.memory_bytes;
  const bool own_group = request.own_group;
  const char* const path = request.path.c_str();
  char* const* const argument_list = arguments.data();
  char* const* const environment_list = environment.data();
  volatile int error = 0;  // written by the child, whose memory this is until exec
  sigset_t all, before, none;
  sigfillset(&all);
  sigemptyset(&none);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  // NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork)
  const pid_t child = ::vfork();
  if (child == 0) {
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    // Of the thread that waits for it, so the child never outlives the wait.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (own_group) ::setpgid(0, 0);
    if (memory > 0) limit_self(RLIMIT_AS, memory);
    limit_self(RLIMIT_CORE, 0);
    for (int i = 0; i < 3; ++i) ::dup2(descriptors[i], i);
    ::syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);  // fails on old kernels
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(path, argument_list, environment_list);
    error = errno;
    ::_exit(127);
  }
  // NOLINTEND(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork)
  const int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) {
    fail(ErrorCode::CompileFailed, "{} cannot be started: {}", path, error_text(fork_error));
  }
  if (error != 0) {
    ::waitpid(child, nullptr, 0);
    fail(ErrorCode::CompileFailed, "{} cannot be started: {}", path, error_text(error));
  }
  return child;
}

// Takes what is there. False at the end of the stream.
bool drain(int fd, std::string& into) {
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got > 0) {
      const std::size_t room = kMaxOutput - std::min(kMaxOutput, into.size());
      into.append(block.data(), std::min(static_cast<std::size_t>(got), room));
      if (static_cast<std::size_t>(got) < block.size()) return true;
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && errno == EAGAIN;
    }
  }
}

// True once it ended; it stays a zombie so that its process group cannot become another's.
bool has_ended(pid_t child) {
  siginfo_t info;
  info.si_pid = 0;
  if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return errno != EINTR;  // ECHILD: somebody else in this program reaped it
  }
  return info.si_pid == child;
}

void reap(pid_t child, ProcessResult& result) {
  int status = 0;
  pid_t got;
  while ((got = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (got != child) return;
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
}

}  // namespace

std::vector<std::string> ProcessRequest::child_environment(const std::vector<std::string>& set,
                                                           const std::vector<std::string>& drop) {
  std::vector<std::string> made = set;
  for (char** at = environ; at && *at; ++at) {
    const std::string_view one = *at;
    const std::string_view name = one.substr(0, one.find('='));
    const bool replaced = std::any_of(set.begin(), set.end(), [&](const std::string& other) {
      return std::string_view(other).substr(0, other.find('=')) == name;
    });
    if (!replaced && std::find(drop.begin(), drop.end(), name) == drop.end())
      made.emplace_back(one);
  }
  return made;
}

ProcessResult run_process(const ProcessRequest& request) {
  Channel in, out, err;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(request.limits.seconds));
  const pid_t child = start(request, in, out, err);
  in.theirs.close();
  out.theirs.close();
  err.theirs.close();

  ProcessResult result;
  std::string_view input = request.input;
  // Ends the stream but keeps the socket, whose closing tells the child that this process died.
  const auto end_input = [&] {
    input = {};
    ::shutdown(in.ours.get(), SHUT_WR);
  };
  if (input.empty()) end_input();
  bool ended = false;
  while (!ended) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    result.stopped = request.stop.stop_requested();
    result.timed_out = !result.stopped && left.count() <= 0;
    if (result.stopped || result.timed_out) break;
    std::array<pollfd, 3> polled = {{{input.empty() ? -1 : in.ours.get(), POLLOUT, 0},
                                     {out.ours.get(), POLLIN, 0},
                                     {err.ours.get(), POLLIN, 0}}};
    const bool streams = out.ours.get() >= 0 || err.ours.get() >= 0;
    // Short waits: a grandchild may hold the streams open after the child ended, and a child that
    // closed both is about to end.
    const long long most = streams ? 50 : 1;
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min<long long>(left.count(), most)));
    ended = has_ended(child);
    if (polled[0].revents != 0) {
      const ssize_t sent = ::send(in.ours.get(), input.data(), input.size(), MSG_NOSIGNAL);
      if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
      if (input.empty() || (sent < 0 && errno != EAGAIN && errno != EINTR)) end_input();
    }
    if (out.ours.get() >= 0 && !drain(out.ours.get(), result.out)) out.ours.close();
    if (err.ours.get() >= 0 && !drain(err.ours.get(), result.err)) err.ours.close();
  }
  if (!ended) {
    ::kill(request.own_group ? -child : child, SIGKILL);
    ::kill(child, SIGKILL);
  }
  if (ended) {
    // What is still in the streams, then what a crashed child left running.
    while (out.ours.get() >= 0 && drain(out.ours.get(), result.out)) {
      pollfd more = {out.ours.get(), POLLIN, 0};
      if (::poll(&more, 1, 0) <= 0) break;
    }
    while (err.ours.get() >= 0 && drain(err.ours.get(), result.err)) {
      pollfd more = {err.ours.get(), POLLIN, 0};
      if (::poll(&more, 1, 0) <= 0) break;
    }
  }
  ProcessResult ending;
  if (ended && request.own_group) {
    siginfo_t info = {};
    if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == child && info.si_code != CLD_EXITED) {
      ::kill(-child, SIGKILL);
    }
  }
  reap(child, ending);
  result.exit_code = ending.exit_code;
  result.signal = ended ? ending.signal : 0;
  return result;
}

std::string how_it_ended(const ProcessResult& result, const CompileLimits& limits) {
  if (result.stopped) return "was stopped: its code is not wanted any more";
  if (result.timed_out) {
    return fmt::format("was still running after {:g} s (HIPFLASH_COMPILE_TIMEOUT) and was stopped",
                       limits.seconds);
  }
  std::string ending =
      result.signal != 0
          ? fmt::format("was killed by signal {} ({})", result.signal, ::strsignal(result.signal))
          : fmt::format("ended with exit status {}", result.exit_code);
  // How compilers, linkers and loaders put it; a crash at the limit is their bug, but common.
  const std::string words = result.err + result.out;
  const bool lacked_memory =
      result.signal != 0 ||
      std::any_of(kLackOfMemory.begin(), kLackOfMemory.end(),
                  [&](const char* phrase) { return words.find(phrase) != std::string::npos; });
  if (!lacked_memory || limits.memory_bytes == 0) return ending;
  return fmt::format(
      "{}, perhaps for lack of memory: HIPFLASH_COMPILE_MEMORY allows {} MiB to each process",
      ending, limits.memory_bytes >> 20);
}

bool is_executable(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace hipflash::jit
