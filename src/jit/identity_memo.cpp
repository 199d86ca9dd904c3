#include "jit/identity_memo.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "cache/key.h"
#include "core/fail.h"

namespace hipflash::jit {
namespace {

constexpr const char* kFirstLine = "hipflash compiler identity 1";

// Empty if a file is not there.
std::string fingerprint(const std::vector<std::string>& files) {
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

std::optional<Identity> read(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return std::nullopt;
  std::ifstream file(path);
  std::string first, check;
  Identity found;
  if (!std::getline(file, first) || !std::getline(file, found.identity) ||
      !std::getline(file, found.description) || !std::getline(file, check) || first != kFirstLine ||
      check != cache::hash_hex(found.identity + "\n" + found.description)) {
    return std::nullopt;
  }
  return found;
}

// Failure to write is no failure: the next process asks again.
void write(const std::string& path, const Identity& identity) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n", kFirstLine, identity.identity, identity.description,
                  cache::hash_hex(identity.identity + "\n" + identity.description));
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = ::close(fd) == 0;
  if (!written || !closed || ::rename(temporary.c_str(), path.c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
}

}  // namespace

Identity remembered_identity(const std::string& folder, const std::vector<std::string>& files,
                             const std::function<Identity()>& ask) {
  const std::string name = folder.empty() ? "" : fingerprint(files);
  if (name.empty()) return ask();
  const std::string path = folder + "/compiler-" + name.substr(0, 32);
  if (auto found = read(path)) return *std::move(found);
  Identity made = ask();
  write(path, made);
  return made;
}

}  // namespace hipflash::jit
