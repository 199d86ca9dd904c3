/// \file
/// A lock between threads and processes that the kernel releases when its holder dies.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace hipflash::cache {

/// An exclusive open-file-description lock on a file. Two FileLocks of one process exclude each
/// other like those of two processes.
///
/// The file stays when the lock is released. A file that vanished while it was waited for does not
/// grant the lock: only the file that the path names now counts.
class FileLock {
 public:
  enum class State {
    Held,
    TimedOut,     ///< Somebody else holds it still.
    Unavailable,  ///< The file cannot be created or the file system has no locks; see reason().
  };

  FileLock() = default;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Waits up to `wait` for the lock on `file`, which is created when missing. Zero tries once.
  static FileLock acquire(const std::filesystem::path& file, std::chrono::milliseconds wait);

  bool held() const noexcept { return fd_ >= 0; }
  State state() const noexcept { return state_; }
  const std::string& reason() const noexcept { return reason_; }

  void release() noexcept;

 private:
  int fd_ = -1;
  State state_ = State::Unavailable;
  std::string reason_;
};

}  // namespace hipflash::cache
