#include "cache/lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "cache/io.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

using Clock = std::chrono::steady_clock;

// F_OFD_SETLK with a polling wait: F_OFD_SETLKW has no time limit of its own, and a signal to bound
// it is not a library's to send.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{20};

int set_lock(int fd, short type) noexcept {
  struct flock request {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  int status = 0;
  do {
    status = fcntl(fd, F_OFD_SETLK, &request);
  } while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

bool same_file(int fd, const std::filesystem::path& path) noexcept {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(FileLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      state_(std::exchange(other.state_, State::Unavailable)),
      reason_(std::move(other.reason_)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    fd_ = std::exchange(other.fd_, -1);
    state_ = std::exchange(other.state_, State::Unavailable);
    reason_ = std::move(other.reason_);
  }
  return *this;
}

FileLock::~FileLock() {
  release();
}

FileLock FileLock::acquire(const std::filesystem::path& file, std::chrono::milliseconds wait) {
  FileLock lock;
  const auto fail_with = [&](State state, std::string_view why) {
    lock.state_ = state;
    lock.reason_ = fmt::format("{}: {}", file.string(), why);
  };
  const Clock::time_point deadline = Clock::now() + wait;
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    // O_NONBLOCK: somebody may have put a FIFO there.
    io::File opened = io::open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (!opened) {
      fail_with(State::Unavailable, io::error_text(errno));
      return lock;
    }
    int error = set_lock(opened.fd(), F_WRLCK);
    while (error == EAGAIN || error == EACCES) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) {
        fail_with(State::TimedOut, fmt::format("still held after {} ms", wait.count()));
        return lock;
      }
      std::this_thread::sleep_for(std::min(pause, left));
      pause = std::min(2 * pause, kLongestPause);
      error = set_lock(opened.fd(), F_WRLCK);
    }
    if (error != 0) {
      fail_with(State::Unavailable, io::error_text(error));
      return lock;
    }
    if (same_file(opened.fd(), file)) {
      lock.fd_ = opened.release();
      lock.state_ = State::Held;
      return lock;
    }
    // The file was removed while it was waited for. Others lock the new one, so this lock means
    // nothing: the loop's end drops it.
    if (Clock::now() >= deadline) {
      fail_with(State::TimedOut, "removed again and again");
      return lock;
    }
  }
}

void FileLock::release() noexcept {
  if (fd_ < 0) return;
  // Unlocked by name, not only by close: a child forked meanwhile shares the lock and would keep
  // it.
  set_lock(fd_, F_UNLCK);
  ::close(std::exchange(fd_, -1));
  state_ = State::Unavailable;
}

}  // namespace hipflash::cache
