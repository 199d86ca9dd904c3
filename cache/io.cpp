#include "cache/io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace hipflash::cache::io {

const Calls kSystem = {
    .open = [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
    .read = ::read,
    .write = ::write,
    .fsync = ::fsync,
    .close = ::close,
    .rename = ::rename,
    .unlink = ::unlink,
};

namespace {

std::atomic<const Calls*> current{&kSystem};

// File systems that cannot sync (some FUSE and network ones) answer with these.
bool sync_unsupported(int error) {
  return error == EINVAL || error == ENOTSUP || error == ENOSYS;
}

}  // namespace

const Calls& calls() noexcept {
  return *current.load(std::memory_order_acquire);
}

void replace_for_testing(const Calls* table) noexcept {
  current.store(table != nullptr ? table : &kSystem, std::memory_order_release);
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

int File::close() noexcept {
  if (fd_ < 0) return 0;
  // Not retried on EINTR: Linux has released the descriptor by then.
  const int status = calls().close(std::exchange(fd_, -1));
  return status == 0 || errno == EINTR ? 0 : errno;
}

File open(const std::filesystem::path& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = calls().open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return File(fd);
}

int write_all(int fd, ByteView data) noexcept {
  while (!data.empty()) {
    const ssize_t count = calls().write(fd, data.data(), data.size());
    if (count > 0) {
      data = data.subspan(static_cast<std::size_t>(count));
    } else if (count == 0) {
      return EIO;  // no progress and no error would loop for ever
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int read_up_to(int fd, std::size_t limit, Bytes& out) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  const std::size_t begin = out.size();
  while (out.size() - begin < limit) {
    const std::size_t at = out.size();
    const std::size_t chunk = std::min(std::max(kChunk, at - begin), limit - (at - begin));
    out.resize(at + chunk);
    const ssize_t count = calls().read(fd, &out[at], chunk);
    const int error = count < 0 ? errno : 0;
    out.resize(at + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) break;
    if (error != 0 && error != EINTR) return error;
  }
  return 0;
}

int sync_file(int fd) noexcept {
  while (calls().fsync(fd) != 0) {
    if (errno == EINTR) continue;
    return sync_unsupported(errno) ? 0 : errno;
  }
  return 0;
}

int sync_directory(const std::filesystem::path& directory) noexcept {
  const File file = open(directory, O_RDONLY | O_DIRECTORY);
  return file ? sync_file(file.fd()) : errno;
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

}  // namespace hipflash::cache::io
