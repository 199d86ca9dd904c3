#include "jit/identity_memo.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cache/key.h"
#include "cache/store.h"
#include "core/fail.h"

namespace hipflash::jit {
namespace {

constexpr const char* kFirstLine = "hipflash compiler identity 1";
constexpr off_t kMostBytes = 16384;

}  // namespace

std::string fingerprint_of(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    struct stat status;
    if (::stat(file.c_str(), &status) != 0) return {};
    text += fmt::format("{} {} {} {} {}.{} {}.{}\n", file, status.st_dev, status.st_ino,
                        status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                        status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  }
  return cache::hash_hex(text);
}

IdentityMemo::IdentityMemo(const std::string& folder, const std::vector<std::string>& files) {
  const std::string name = folder.empty() ? "" : fingerprint_of(files);
  if (name.empty()) return;
  folder_ = folder;
  path_ = fmt::format("{}/{}{}", folder, cache::kNotePrefix, name.substr(0, 32));
}

std::optional<Identity> IdentityMemo::read() const {
  struct stat status;
  if (path_.empty() || ::lstat(path_.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size > kMostBytes || (status.st_uid != ::geteuid() && status.st_uid != 0)) {
    return std::nullopt;
  }
  std::ifstream file(path_);
  std::string first, check;
  Identity found;
  if (!std::getline(file, first) || !std::getline(file, found.identity) ||
      !std::getline(file, found.description) || !std::getline(file, check) || first != kFirstLine ||
      check != cache::hash_hex(found.identity + "\n" + found.description)) {
    return std::nullopt;
  }
  return found;
}

void IdentityMemo::write(const Identity& identity) const {
  if (path_.empty()) return;
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n", kFirstLine, identity.identity, identity.description,
                  cache::hash_hex(identity.identity + "\n" + identity.description));
  std::string temporary = fmt::format("{}/{}compiler-XXXXXX", folder_, cache::kTempPrefix);
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = ::close(fd) == 0;
  if (!written || !closed || ::rename(temporary.c_str(), path_.c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
}

}  // namespace hipflash::jit
