/// \file
/// The system calls the store makes on files, behind a table that tests replace to inject faults.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "cache/entry.h"

namespace hipflash::cache::io {

struct Calls {
  int (*open)(const char* path, int flags, mode_t mode);
  ssize_t (*read)(int fd, void* data, std::size_t size);
  ssize_t (*write)(int fd, const void* data, std::size_t size);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
};

/// The calls of the operating system.
extern const Calls kSystem;

/// The table in use: kSystem unless a test replaced it.
const Calls& calls() noexcept;

/// Replaces the table for the whole process; nullptr puts kSystem back. `table` must outlive its
/// use.
void replace_for_testing(const Calls* table) noexcept;

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int fd = -1) noexcept : fd_(fd) {}
  File(File&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  File& operator=(File&& other) noexcept;
  ~File() { close(); }

  int fd() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// 0, or the errno of close(2): network file systems report a full disk here.
  int close() noexcept;
  /// Gives the descriptor away.
  int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

/// open(2) with O_CLOEXEC, retried on EINTR. On failure the File is empty and errno is set.
File open(const std::filesystem::path& path, int flags, mode_t mode = 0);

/// Writes all of `data`. 0 or an errno.
int write_all(int fd, ByteView data) noexcept;

/// Reads up to `limit` bytes until the end of the file. 0 or an errno.
int read_up_to(int fd, std::size_t limit, Bytes& out);

/// fsync(2), retried on EINTR. 0 or an errno; file systems that cannot sync count as done.
int sync_file(int fd) noexcept;

/// The names in a directory made durable. 0 or an errno, as for sync_file().
int sync_directory(const std::filesystem::path& directory) noexcept;

/// "No space left on device" for ENOSPC, thread-safe.
std::string error_text(int error);

}  // namespace hipflash::cache::io
