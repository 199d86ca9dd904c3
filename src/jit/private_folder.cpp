#include "jit/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/fail.h"
#include "core/settings.h"

namespace hipflash::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "hipflash-";
constexpr std::string_view kRandom = "XXXXXX";  // as mkdtemp wants it
constexpr const char* kLockFile = ".in-use-by-hipflash";

// A folder that a PrivateFolder made: by its name, its owner and the lock file in it. Looked at
// without following symbolic links, since anybody may put those into /tmp.
bool is_ours(const fs::path& folder) {
  const std::string name = folder.filename().string();
  struct stat status {};
  return name.size() == kPrefix.size() + kRandom.size() && name.starts_with(kPrefix) &&
         ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & 0077U) == 0 &&
         ::lstat((folder / kLockFile).c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

void remove_abandoned_folders(const std::string& place) {
  std::error_code ignored;
  fs::directory_iterator at(place, ignored);
  for (; !ignored && at != fs::directory_iterator(); at.increment(ignored)) {
    const fs::path folder = at->path();
    if (!is_ours(folder)) continue;
    const auto lock = cache::FileLock::acquire(folder / kLockFile, std::chrono::milliseconds(0));
    std::error_code not_removed;  // another sweeper's
    if (lock.held()) fs::remove_all(folder, not_removed);
  }
}

PrivateFolder::PrivateFolder() {
  std::string trouble;
  for (const std::string& place :
       {setting("TMPDIR"), std::string("/tmp"), std::string("/var/tmp"), std::string("/dev/shm")}) {
    if (place.empty()) continue;
    if (make_in(place)) {
      static std::atomic<pid_t> done_by{0};
      const pid_t self = ::getpid();
      if (done_by.exchange(self) != self) remove_abandoned_folders(place);
      return;
    }
    trouble += fmt::format("{}{}: {}", trouble.empty() ? "" : "; ", place,
                           std::generic_category().message(errno));
  }
  fail(ErrorCode::CompileFailed, "no folder for temporary files ({}); set TMPDIR", trouble);
}

bool PrivateFolder::make_in(const std::string& place) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    path_ = fmt::format("{}/{}{}", place, kPrefix, kRandom);
    if (::mkdtemp(path_.data()) == nullptr) return false;  // made with mode 0700
    lock_ = cache::FileLock::acquire(path_ + "/" + kLockFile, std::chrono::milliseconds(0));
    // A sweeping process may have come between these two lines: then it is gone, or about to be.
    // Where files cannot be locked nobody sweeps either.
    if (lock_.held()) return true;
    std::error_code ignored;
    if (lock_.state() == cache::FileLock::State::Unavailable && fs::exists(path_, ignored)) {
      return true;
    }
  }
  errno = EBUSY;
  return false;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace hipflash::jit
