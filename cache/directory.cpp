#include "cache/directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "cache/io.h"
#include "core/format.h"
#include "core/settings.h"

namespace hipflash::cache {
namespace {

std::string home_from_user_database() {
  std::vector<char> buffer(16384);
  struct passwd entry {};
  struct passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0) return {};
  return found != nullptr && entry.pw_dir != nullptr ? entry.pw_dir : "";
}

// mkdir -p with mode 0700, as the XDG base directory specification wants. 0 or an errno.
int create_with_parents(const std::filesystem::path& path) {
  struct stat status {};
  std::filesystem::path made;
  for (const std::filesystem::path& part : path) {
    made /= part;
    // Looked at first: mkdir on an existing directory of a read-only file system says EROFS.
    if (stat(made.c_str(), &status) == 0) continue;
    if (mkdir(made.c_str(), 0700) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

bool may(const std::filesystem::path& path, int mode) {
  return faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

Directory unusable(const std::filesystem::path& path, std::string reason) {
  return {path, Access::None, std::move(reason)};
}

}  // namespace

std::filesystem::path default_directory() {
  const std::filesystem::path xdg = setting("XDG_CACHE_HOME");
  if (xdg.is_absolute()) return xdg / "hipflash";  // the specification: ignore a relative one
  const std::filesystem::path home = home_folder();
  return home.empty() ? home : home / ".cache" / "hipflash";
}

std::filesystem::path home_folder() {
  std::filesystem::path home = setting("HOME");
  if (!home.is_absolute()) home = home_from_user_database();
  return home.is_absolute() ? home : std::filesystem::path();
}

Directory open_directory(const std::filesystem::path& path) {
  if (path.empty()) {
    return unusable({}, "no home folder is known; HIPFLASH_CACHE_DIR names a cache folder");
  }
  std::error_code absolute_error;
  std::filesystem::path absolute = std::filesystem::absolute(path, absolute_error);
  if (absolute_error) {  // the working directory is gone
    return unusable(path, fmt::format("{}: {}", path.string(), absolute_error.message()));
  }
  absolute = absolute.lexically_normal();
  const std::string name = absolute.string();

  if (const int error = create_with_parents(absolute); error != 0) {
    return unusable(absolute, fmt::format("{} cannot be created: {}", name, io::error_text(error)));
  }
  struct stat status {};
  if (stat(absolute.c_str(), &status) != 0) {
    return unusable(absolute, fmt::format("{}: {}", name, io::error_text(errno)));
  }
  if (!S_ISDIR(status.st_mode)) {
    return unusable(absolute, fmt::format("{} is not a folder", name));
  }
  if (const std::string reason = untrusted_reason(status); !reason.empty()) {
    return unusable(absolute, fmt::format("{} {}", name, reason));
  }
  if (!may(absolute, R_OK | X_OK)) {
    return unusable(absolute, fmt::format("{} cannot be read: {}", name, io::error_text(errno)));
  }
  if (!may(absolute, W_OK | X_OK)) {
    return {absolute, Access::ReadOnly,
            fmt::format("{} cannot be written to: {}", name, io::error_text(errno))};
  }
  return {absolute, Access::ReadWrite, {}};
}

std::string untrusted_reason(const struct stat& status) {
  const uid_t self = geteuid();
  if (status.st_uid != self && status.st_uid != 0) {
    return fmt::format("belongs to user {}, neither to user {} nor to root", status.st_uid, self);
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("may be written by others than its owner (mode {:04o})",
                       status.st_mode & 07777U);
  }
  return {};
}

}  // namespace hipflash::cache
