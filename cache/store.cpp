#include "cache/store.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <tuple>

#include "cache/entry_file.h"
#include "cache/io.h"
#include "core/format.h"
#include "core/log.h"

namespace hipflash::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFolder = "locks";
constexpr const char* kPruneLock = "prune";
// Writing an entry takes milliseconds: a temporary file of this age has lost its writer.
constexpr std::chrono::minutes kTempLifetime{10};

// One warning per process and cause, however many Stores meet it.
void warn_once(const std::string& text) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;  // lines may be written while exiting
  const std::lock_guard guard(mutex);
  if (said->insert(text).second) log(LogLevel::warn, "{}", text);
}

std::chrono::system_clock::time_point time_of(const struct timespec& time) {
  const auto since_epoch =
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch));
}

bool same_time(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool same_version(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && same_time(a.st_mtim, b.st_mtim);
}

// Calls visit(path, stat) for the files of a folder. Files may come and go meanwhile.
template <typename Visit>
void for_each_file(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    struct stat status {};
    if (lstat(at->path().c_str(), &status) == 0) visit(at->path(), status);
  }
}

// Errors that say something about this one file or moment. After any other the store stops writing.
bool transient(int error) {
  return error == ENOENT || error == EEXIST || error == ESTALE || error == EISDIR ||
         error == ENOTEMPTY || error == EBUSY || error == EMFILE || error == ENFILE;
}

}  // namespace

struct Store::Found {
  fs::path path;
  std::string key;
  struct stat status {};

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(status.st_size); }
};

Store::Store(Directory directory, Limits limits)
    : directory_(std::move(directory)),
      limits_(limits),
      writable_(directory_.access == Access::ReadWrite),
      degraded_(directory_.reason) {
  if (directory_.access == Access::ReadOnly) {
    warn_once(fmt::format("cache: {}; newly compiled kernels stay in memory", degraded_));
  } else if (directory_.access == Access::None) {
    warn_once(fmt::format("cache: {}; compiled kernels stay in memory", degraded_));
  }
}

std::optional<Entry> Store::find(std::string_view key) {
  if (!readable() || !is_key(key)) return std::nullopt;
  const fs::path path = entry_path(key);
  FileRead<Entry> read = read_entry_file(path, Links::Refuse);
  if (read.fault == Fault::None && key_of(read.decoded->info.inputs) != key) {
    read.fault = Fault::Content;
    read.decoded = {
        {}, fmt::format("it is the entry of another key, for {}", read.decoded->info.inputs.arch)};
  }
  switch (read.fault) {
    case Fault::None:
      touch_entry_file(path, read.status);
      return std::move(read.decoded.value);
    case Fault::Missing:
      return std::nullopt;
    case Fault::System:
      log_once(key, read.decoded.reason);
      return std::nullopt;
    case Fault::Content:
      remove_faulty(key, read.status, read.decoded.reason);
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Entry> Store::find_by_spec(const std::string& spec_id) {
  for (const std::string& key : keys_of(spec_id)) {
    if (auto entry = find(key)) return entry;
  }
  return std::nullopt;
}

bool Store::put(const EntryInfo& info, ByteView code) {
  if (!writable()) return false;
  const Bytes file = encode(info, code);
  const std::string key = key_of(info.inputs);
  if (file.size() > limits_.max_bytes || limits_.max_entries == 0) {
    log_once(key, fmt::format("{} bytes are above the cache's limit of {}", file.size(),
                              limits_.max_bytes));
    return false;
  }
  const WriteResult result = write_entry(key, file);
  if (result.error == 0) {
    prune();
    return true;
  }
  const std::string text = fmt::format("{}: {}", result.step, io::error_text(result.error));
  if (transient(result.error)) {
    log_once(key, text);
  } else {
    stop_writing(text);
  }
  return false;
}

bool Store::evict(std::string_view key, std::string_view reason) {
  if (!readable() || !is_key(key)) return true;
  struct stat status {};
  if (lstat(entry_path(key).c_str(), &status) != 0) return true;
  return remove_faulty(key, status, std::string(reason));
}

FileLock Store::lock(std::string_view key, std::chrono::milliseconds wait) {
  if (directory_.access != Access::ReadWrite || !is_key(key)) return {};
  return acquire(std::string(key) + ".lock", wait);
}

FileLock Store::acquire(const std::string& name, std::chrono::milliseconds wait) {
  const fs::path folder = directory_.path / kLockFolder;
  // The folder exists but for the first time; the lock's open tells what else is wrong.
  if (mkdir(folder.c_str(), 0700) != 0 && errno == ENOENT &&
      open_directory(directory_.path).access == Access::ReadWrite) {
    (void)mkdir(folder.c_str(), 0700);
  }
  return FileLock::acquire(folder / name, wait);
}

std::vector<Listed> Store::list() const {
  std::vector<Listed> entries;
  for (const Found& found : scan()) {
    FileRead<EntryHeader> read = read_entry_header(found.path, Links::Refuse);
    if (read.fault == Fault::Missing) continue;  // removed meanwhile
    if (read.decoded && read.decoded->key != found.key) {
      read.decoded = {{}, "it is the entry of another key"};
    }
    entries.push_back({found.key, found.bytes(), time_of(found.status.st_mtim),
                       std::move(read.decoded.value), std::move(read.decoded.reason)});
  }
  std::reverse(entries.begin(), entries.end());
  return entries;
}

std::vector<Listed> Store::verify(bool evict_faulty) {
  std::vector<Listed> entries = list();
  std::erase_if(entries, [&](Listed& listed) {
    if (!listed.fault.empty()) return false;
    const FileRead<Entry> read = read_entry_file(entry_path(listed.key), Links::Refuse);
    if (read.fault != Fault::None) listed.fault = read.decoded.reason;
    return read.fault == Fault::Missing;  // removed meanwhile
  });
  if (evict_faulty) {
    for (Listed& listed : entries) {
      if (!listed.fault.empty()) listed.removed = evict(listed.key, listed.fault);
    }
  }
  return entries;
}

Removed Store::prune(const Limits& limits) {
  Removed removed;
  if (directory_.access != Access::ReadWrite) return removed;
  const FileLock lock = acquire(kPruneLock, std::chrono::milliseconds(0));
  // Two pruners would each count what the other removes. Where there are no locks, that only
  // removes a little too much.
  if (lock.state() == FileLock::State::TimedOut) return removed;

  remove_stale_temporaries();
  const std::vector<Found> entries = scan();
  std::uint64_t bytes = 0;
  std::uint64_t count = entries.size();
  for (const Found& found : entries) bytes += found.bytes();
  for (const Found& found : entries) {
    if (bytes <= limits.max_bytes && count <= limits.max_entries) break;
    struct stat now {};
    const bool gone = lstat(found.path.c_str(), &now) != 0;
    if (!gone && !same_version(now, found.status)) continue;  // used or rewritten since the scan
    if (!gone && io::calls().unlink(found.path.c_str()) != 0 && errno != ENOENT) continue;
    bytes -= found.bytes();
    --count;
    removed.bytes += found.bytes();
    ++removed.entries;
  }
  if (removed.entries != 0) {
    log(LogLevel::info, "cache: {} least recently used entries removed, {} bytes", removed.entries,
        removed.bytes);
  }
  return removed;
}

Removed Store::clear() {
  Removed removed;
  if (directory_.access != Access::ReadWrite) return removed;
  for (const Found& found : scan()) {
    if (io::calls().unlink(found.path.c_str()) != 0) continue;
    ++removed.entries;
    removed.bytes += found.bytes();
  }
  remove_stale_temporaries();
  for_each_file(directory_.path, [](const fs::path& path, const struct stat&) {
    if (path.filename().string().starts_with(kNotePrefix)) io::calls().unlink(path.c_str());
  });
  for_each_file(directory_.path / kLockFolder, [](const fs::path& path, const struct stat&) {
    // Only a lock that is held by nobody else; who waits for it notices that its file has gone.
    const FileLock lock = FileLock::acquire(path, std::chrono::milliseconds(0));
    if (lock.held()) io::calls().unlink(path.c_str());
  });
  return removed;
}

std::uint64_t Store::total_bytes() const {
  std::uint64_t bytes = 0;
  for (const Found& found : scan()) bytes += found.bytes();
  return bytes;
}

std::string Store::degraded_reason() const {
  const std::lock_guard guard(mutex_);
  return degraded_;
}

fs::path Store::entry_path(std::string_view key) const {
  return directory_.path / (std::string(key) + std::string(kEntrySuffix));
}

// The entry files, least recently used first.
std::vector<Store::Found> Store::scan() const {
  std::vector<Found> entries;
  if (!readable()) return entries;
  for_each_file(directory_.path, [&](const fs::path& path, const struct stat& status) {
    std::string stem = path.stem().string();
    if (path.extension() != kEntrySuffix || !is_key(stem)) return;
    entries.push_back({path, std::move(stem), status});
  });
  std::sort(entries.begin(), entries.end(), [](const Found& a, const Found& b) {
    return std::tie(a.status.st_mtim.tv_sec, a.status.st_mtim.tv_nsec, a.key) <
           std::tie(b.status.st_mtim.tv_sec, b.status.st_mtim.tv_nsec, b.key);
  });
  return entries;
}

std::vector<std::string> Store::keys_of(const std::string& spec_id) {
  const std::lock_guard guard(index_mutex_);
  struct stat folder {};
  if (readable() && stat(directory_.path.c_str(), &folder) == 0 &&
      !same_time(folder.st_mtim, indexed_)) {
    for (const Found& found : scan()) {
      if (spec_of_.contains(found.key)) continue;
      const FileRead<EntryHeader> read = read_entry_header(found.path, Links::Refuse);
      // A header that cannot be read may be that of another version, so the file stays.
      if (read.decoded && read.decoded->key == found.key) {
        spec_of_.emplace(found.key, read.decoded->spec_id);
      }
    }
    // An entry that comes within the same tick of the file system's clock leaves no other time.
    const auto age = std::chrono::system_clock::now() - time_of(folder.st_mtim);
    if (age > std::chrono::seconds(2)) indexed_ = folder.st_mtim;
  }
  std::vector<std::string> keys;
  for (const auto& [key, spec] : spec_of_) {
    if (spec == spec_id) keys.push_back(key);
  }
  return keys;
}

// Temporary file, fsync, rename, fsync of the directory: whenever this process or the machine dies,
// the entry's name stands for a whole entry or for none.
Store::WriteResult Store::write_entry(const std::string& key, ByteView file) {
  std::array<unsigned char, 8> random{};
  randombytes_buf(random.data(), random.size());
  const fs::path temporary =
      directory_.path / fmt::format("{}{}-{:02x}", kTempPrefix, getpid(), fmt::join(random, ""));
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  io::File out = io::open(temporary, flags, 0600);
  if (!out && errno == ENOENT && open_directory(directory_.path).access == Access::ReadWrite) {
    out = io::open(temporary, flags, 0600);  // somebody had removed the whole folder
  }
  if (!out) return {"an entry cannot be created", errno};

  WriteResult result{"an entry cannot be written", io::write_all(out.fd(), file)};
  if (result.error == 0) result = {"an entry cannot be synced", io::sync_file(out.fd())};
  const int close_error = out.close();
  if (result.error == 0) result = {"an entry cannot be written", close_error};
  if (result.error == 0 && io::calls().rename(temporary.c_str(), entry_path(key).c_str()) != 0) {
    result = {"an entry cannot be renamed into place", errno};
  }
  if (result.error != 0) {
    io::calls().unlink(temporary.c_str());
    return result;
  }
  if (const int error = io::sync_directory(directory_.path); error != 0) {
    // The entry is whole and visible; only its name might not survive a power cut.
    log(LogLevel::debug, "cache: {}: {}", directory_.path.string(), io::error_text(error));
  }
  return {};
}

void Store::remove_stale_temporaries() {
  const auto now = std::chrono::system_clock::now();
  for_each_file(directory_.path, [&](const fs::path& path, const struct stat& status) {
    if (!path.filename().string().starts_with(kTempPrefix)) return;
    if (now - time_of(status.st_mtim) > kTempLifetime) io::calls().unlink(path.c_str());
  });
}

// Removes the file that was found faulty, and only that one: another process may have put a good
// one in its place.
// True if what was `seen` is not there any more, whoever removed or replaced it.
bool Store::remove_faulty(std::string_view key, const struct stat& seen,
                          const std::string& reason) {
  const fs::path path = entry_path(key);
  struct stat now {};
  if (lstat(path.c_str(), &now) != 0) return true;
  const bool is_link = S_ISLNK(now.st_mode);  // refused at open, so `seen` is empty
  if (!is_link && !same_version(now, seen)) return true;
  if (io::calls().unlink(path.c_str()) == 0) {
    log(LogLevel::warn, "cache: {} is removed: {}", path.string(), reason);
    return true;
  }
  if (errno == ENOENT) return true;
  log_once(key, reason);
  return false;
}

void Store::stop_writing(const std::string& reason) {
  {
    const std::lock_guard guard(mutex_);
    if (!writable_.exchange(false)) return;
    degraded_ = fmt::format("{}: {}", directory_.path.string(), reason);
  }
  warn_once(fmt::format("cache: {}: {}; newly compiled kernels stay in memory",
                        directory_.path.string(), reason));
}

void Store::log_once(std::string_view key, const std::string& reason) {
  {
    const std::lock_guard guard(mutex_);
    if (!logged_.emplace(key).second) return;
  }
  log(LogLevel::warn, "cache: {} is not used: {}", entry_path(key).string(), reason);
}

}  // namespace hipflash::cache
