#include "autotune/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>

#include "cache/directory.h"
#include "cache/io.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/settings.h"

namespace hipflash::autotune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = std::size_t{16} << 20;
constexpr std::chrono::seconds kLongestWrite{20};  // of another process

enum class Reading { done, missing, failed };

Reading read_file(const fs::path& path, std::string& text, std::string& trouble) {
  const cache::io::File file = cache::io::open(path, O_RDONLY | O_NONBLOCK);
  if (!file) {
    trouble = cache::io::error_text(errno);
    return errno == ENOENT ? Reading::missing : Reading::failed;
  }
  cache::Bytes bytes;
  if (const int error = cache::io::read_up_to(file.fd(), kLargestFile + 1, bytes); error != 0) {
    trouble = cache::io::error_text(error);
    return Reading::failed;
  }
  if (bytes.size() > kLargestFile) {
    trouble = fmt::format("it is larger than {} bytes", kLargestFile);
    return Reading::failed;
  }
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return Reading::done;
}

// Once per file and process: a Context is made often.
void warn_once(const fs::path& path, const std::string& trouble) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  if (warned.insert(path.string()).second) {
    log(LogLevel::warn, "tuning results in {} are not used: {}", path.string(), trouble);
  }
}

// False if it cannot be read; `trouble` is empty if there is none.
bool read_document(const fs::path& path, Document& document, std::string& trouble) {
  std::string text;
  switch (read_file(path, text, trouble)) {
    case Reading::missing:
      trouble.clear();
      return false;
    case Reading::failed:
      return false;
    case Reading::done:
      break;
  }
  try {
    document = parse_document(text);
    return true;
  } catch (const Error& error) {
    trouble = error.what();
    return false;
  }
}

[[noreturn]] void unusable(const fs::path& path, int error) {
  fail(ErrorCode::CacheUnusable, "tuning store: {}: {}", path.string(),
       cache::io::error_text(error));
}

void replace_file(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + fmt::format(".{}.tmp", ::getpid());
  int error = 0;
  {
    cache::io::File file =
        cache::io::open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (!file) unusable(temporary, errno);
    error = cache::io::write_all(
        file.fd(), {reinterpret_cast<const unsigned char*>(text.data()), text.size()});
    if (error == 0) error = cache::io::sync_file(file.fd());
    if (const int closing = file.close(); error == 0) error = closing;
  }
  if (error == 0 && cache::io::calls().rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    cache::io::calls().unlink(temporary.c_str());
    unusable(path, error);
  }
  (void)cache::io::sync_directory(path.parent_path());
}

// Temporary files of writers that were killed. Under the write lock nobody else's is in use.
void remove_leftovers(const fs::path& path) {
  std::error_code ignored;
  const std::string start = path.filename().string() + ".";
  for (const fs::directory_entry& one : fs::directory_iterator(path.parent_path(), ignored)) {
    const std::string name = one.path().filename().string();
    if (name.starts_with(start) && name.ends_with(".tmp")) fs::remove(one.path(), ignored);
  }
}

void keep_aside(const fs::path& path, const std::string& trouble) {
  for (int n = 1; n < 1000; ++n) {
    const fs::path aside = path.string() + fmt::format(".damaged-{}", n);
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(aside, ignored))) continue;
    if (cache::io::calls().rename(path.c_str(), aside.c_str()) != 0) unusable(path, errno);
    log(LogLevel::warn, "tuning results in {} cannot be read ({}); they are kept as {}",
        path.string(), trouble, aside.string());
    return;
  }
  fail(ErrorCode::CacheUnusable, "tuning store: {} cannot be read and was kept aside 999 times",
       path.string());
}

}  // namespace

bool tuning_is_off() {
  return setting("HIPFLASH_TUNING") == "off";
}

fs::path default_store_folder() {
  const std::string named = setting("HIPFLASH_TUNING");
  if (!named.empty()) return named == "off" ? fs::path() : fs::path(named);
  const fs::path xdg = setting("XDG_DATA_HOME");
  if (xdg.is_absolute()) return xdg / "hipflash" / "tuning";
  const fs::path home = cache::home_folder();
  return home.empty() ? fs::path() : home / ".local" / "share" / "hipflash" / "tuning";
}

Store::Store(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!folder_.empty()) {
    if (const fs::path absolute = fs::absolute(folder_, error); !error) folder_ = absolute;
  }
}

fs::path Store::document_path(const Fingerprint& device) const {
  return folder_ / (file_stem(device) + ".json");
}

std::vector<Document> Store::read_relatives(const Fingerprint& device) const {
  std::vector<Document> found;
  if (folder_.empty()) return found;
  std::vector<fs::path> paths;
  std::error_code error;
  const std::string start = architecture_stem(device) + "-";
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(start) && name.ends_with(".json")) paths.push_back(at->path());
  }
  // No results yet is a normal day.
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory) {
    warn_once(folder_, error.message());
  }
  std::sort(paths.begin(), paths.end());  // the same order, and so the same choices, everywhere
  for (const fs::path& path : paths) {
    Document document;
    std::string trouble;
    if (read_document(path, document, trouble)) {
      found.push_back(std::move(document));
    } else if (!trouble.empty()) {
      warn_once(path, trouble);
    }
  }
  return found;
}

Document Store::read(const Fingerprint& device) const {
  Document document;
  std::string trouble;
  if (folder_.empty() || !read_document(document_path(device), document, trouble) ||
      document.device != device) {
    document = {};
    document.device = device;
  }
  return document;
}

std::string Store::read_text(const std::string& name) const {
  std::string text, trouble;
  if (folder_.empty() || read_file(folder_ / name, text, trouble) != Reading::done) return {};
  return text;
}

void Store::make_usable() {
  if (folder_.empty()) {
    fail(ErrorCode::CacheUnusable,
         "tuning store: there is no home folder; HIPFLASH_TUNING must name a folder");
  }
  const cache::Directory directory = cache::open_directory(folder_);
  if (directory.access != cache::Access::ReadWrite) {
    fail(ErrorCode::CacheUnusable, "tuning store: {}", directory.reason);
  }
}

void Store::update_file(const std::string& name,
                        const std::function<std::string(const std::string&)>& change) {
  make_usable();
  const fs::path path = folder_ / name;
  const cache::FileLock lock = cache::FileLock::acquire(folder_ / (name + ".lock"), kLongestWrite);
  if (!lock.held()) fail(ErrorCode::CacheUnusable, "tuning store: {}", lock.reason());
  remove_leftovers(path);
  std::string text, trouble;
  if (read_file(path, text, trouble) == Reading::failed) {
    fail(ErrorCode::CacheUnusable, "tuning store: {}: {}", path.string(), trouble);
  }
  replace_file(path, change(text));
}

void Store::add(const Document& news) {
  const fs::path path = document_path(news.device);
  update_file(path.filename().string(), [&](const std::string& before) {
    Document document;
    document.device = news.device;
    if (!before.empty()) {
      std::string trouble;
      try {
        Document old = parse_document(before);
        if (old.device != news.device) trouble = "it is of another machine";
        if (trouble.empty()) document = std::move(old);
      } catch (const Error& error) {
        trouble = error.what();
      }
      if (!trouble.empty()) keep_aside(path, trouble);
    }
    merge(document, news);
    return to_json(document);
  });
}

cache::FileLock Store::lock_tuner(const Fingerprint& device, const std::function<bool()>& go_on) {
  make_usable();
  const fs::path file = folder_ / (file_stem(device) + ".tuner.lock");
  for (;;) {
    cache::FileLock lock = cache::FileLock::acquire(file, std::chrono::milliseconds(200));
    if (lock.held()) return lock;
    if (lock.state() == cache::FileLock::State::Unavailable) {
      fail(ErrorCode::CacheUnusable, "tuning store: {}", lock.reason());
    }
    if (!go_on()) return lock;
  }
}

void load_table(TuningTable& table, const std::vector<std::string>& packs) {
  if (tuning_is_off()) return;
  const auto add_text = [&](std::string_view name, std::string_view text, DocumentSource source) {
    try {
      table.add(parse_document(text), source);
    } catch (const Error& error) {
      warn_once(fs::path(name), error.what());
    }
  };
  const std::string start = architecture_stem(table.device()) + "-";
  for (const ShippedDocument& shipped : shipped_documents()) {
    if (shipped.name.starts_with(start)) {
      add_text(shipped.name, shipped.text, DocumentSource::shipped);
    }
  }
  for (const std::string& pack : packs) add_text("a pack", pack, DocumentSource::pack);
  for (const Document& document : Store(default_store_folder()).read_relatives(table.device())) {
    table.add(document, DocumentSource::user);
  }
}

}  // namespace hipflash::autotune
