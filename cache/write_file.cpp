#include "cache/write_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cache/checksum.h"
#include "cache/io.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

namespace fs = std::filesystem;

fs::path temporary_in(const fs::path& folder) {
  require_sodium();
  std::array<unsigned char, 8> random{};
  randombytes_buf(random.data(), random.size());
  return folder / fmt::format(".tmp-{}-{:02x}", getpid(), fmt::join(random, ""));
}

// Writes, syncs and sets the mode. 0 or an errno.
int fill(const io::File& file, ByteView bytes, mode_t mode) {
  if (const int error = io::write_all(file.fd(), bytes); error != 0) return error;
  if (fchmod(file.fd(), mode) != 0) return errno;  // whatever the umask is
  return io::sync_file(file.fd());
}

// Gives an unnamed file a name. 0 or an errno.
int link_file(const io::File& file, const fs::path& name) {
  const std::string self = fmt::format("/proc/self/fd/{}", file.fd());
  return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

int rename_into_place(const fs::path& temporary, const fs::path& path) {
  if (io::calls().rename(temporary.c_str(), path.c_str()) == 0) return 0;
  const int error = errno;
  io::calls().unlink(temporary.c_str());
  return error;
}

// The errno of a file system without unnamed files, or without /proc to name them by.
constexpr int kNoUnnamedFiles = ENOTSUP;

int replace_by_unnamed(const fs::path& path, ByteView bytes, mode_t mode) {
  const io::File file = io::open(path.parent_path(), O_TMPFILE | O_WRONLY, 0600);
  if (!file) {
    const bool unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
    return unknown ? kNoUnnamedFiles : errno;
  }
  if (const int error = fill(file, bytes, mode); error != 0) return error;
  int error = link_file(file, path);
  if (error == ENOENT) return kNoUnnamedFiles;
  if (error != EEXIST) return error;
  const fs::path temporary = temporary_in(path.parent_path());
  error = link_file(file, temporary);
  return error != 0 ? error : rename_into_place(temporary, path);
}

int replace_by_named(const fs::path& path, ByteView bytes, mode_t mode) {
  const fs::path temporary = temporary_in(path.parent_path());
  io::File file = io::open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!file) return errno;
  int error = fill(file, bytes, mode);
  const int close_error = file.close();
  if (error == 0) error = close_error;
  if (error != 0) {
    io::calls().unlink(temporary.c_str());
    return error;
  }
  return rename_into_place(temporary, path);
}

fs::path absolute_name(const fs::path& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored);
}

}  // namespace

std::string why_not_replaceable(const fs::path& path) {
  const fs::path absolute = absolute_name(path);
  if (absolute.empty() || absolute.filename().empty()) return "it is no file name";
  struct stat status;
  if (lstat(absolute.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return io::error_text(EISDIR);
    // A device or a pipe would be lost for whoever else uses it.
    if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) return "it is not a regular file";
  }
  if (access(absolute.parent_path().c_str(), W_OK | X_OK) != 0) return io::error_text(errno);
  return {};
}

std::string replace_file(const fs::path& path, ByteView bytes, mode_t mode) {
  if (std::string reason = why_not_replaceable(path); !reason.empty()) return reason;
  const fs::path absolute = absolute_name(path);
  int error = replace_by_unnamed(absolute, bytes, mode);
  if (error == kNoUnnamedFiles) error = replace_by_named(absolute, bytes, mode);
  if (error != 0) return io::error_text(error);
  (void)io::sync_directory(absolute.parent_path());  // it is whole and visible in any case
  return {};
}

}  // namespace hipflash::cache
