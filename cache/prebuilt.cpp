#include "cache/prebuilt.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "cache/directory.h"
#include "cache/entry_file.h"
#include "cache/io.h"
#include "core/fail.h"
#include "core/format.h"
#include "core/log.h"

namespace hipflash::cache {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entry_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (at->path().extension() == kEntrySuffix) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());  // the same choice on every machine
  return files;
}

}  // namespace

Prebuilt::Prebuilt(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    struct stat status {};
    std::string reason;
    if (stat(folder.c_str(), &status) != 0) {
      reason = io::error_text(errno);
    } else if (S_ISREG(status.st_mode)) {
      fail(ErrorCode::NotSupported,
           "prebuilt: \"{}\" is a file; pack files are not supported, name a folder of entries",
           folder.string());
    } else if (!S_ISDIR(status.st_mode)) {
      reason = "is not a folder";
    } else {
      reason = untrusted_reason(status);
    }
    if (reason.empty()) {
      folders_.push_back(folder);
    } else {
      log(LogLevel::warn, "prebuilt kernels: {} is not used: {}", folder.string(), reason);
      refused_.push_back({folder, std::move(reason)});
    }
  }
}

std::optional<Prebuilt::Match> Prebuilt::find(const KeyInputs& inputs) {
  if (folders_.empty()) return std::nullopt;
  const std::string key = key_of(inputs);
  const std::string spec_id = spec_id_of(inputs);
  const std::lock_guard guard(mutex_);

  // By the name that the user's cache gives its entries: no index needed.
  for (const fs::path& folder : folders_) {
    const fs::path file = folder / (key + std::string(kEntrySuffix));
    if (std::optional<Entry> entry = load(file, spec_id);
        entry && key_of(entry->info.inputs) == key)
      return Match{std::move(*entry), file, true};
  }
  if (!indexed_) build_index();
  const auto at = by_spec_.find(spec_id);
  if (at == by_spec_.end()) return std::nullopt;
  for (const bool exact : {true, false}) {
    for (const Candidate& candidate : at->second) {
      if ((candidate.key == key) != exact) continue;
      std::optional<Entry> entry = load(candidate.file, spec_id);
      if (entry) return Match{std::move(*entry), candidate.file, exact};
    }
  }
  return std::nullopt;
}

// Reads the header of every file, once per process.
void Prebuilt::build_index() {
  indexed_ = true;
  for (const fs::path& folder : folders_) {
    for (const fs::path& file : entry_files(folder)) {
      FileRead<EntryHeader> read = read_entry_header(file, Links::Follow);
      if (read.fault == Fault::None) {
        by_spec_[read.decoded->spec_id].push_back({file, std::move(read.decoded->key)});
      } else {
        log_fault(file, read.decoded.reason);
      }
    }
  }
}

std::optional<Entry> Prebuilt::load(const fs::path& file, const std::string& spec_id) {
  FileRead<Entry> read = read_entry_file(file, Links::Follow);
  if (read.fault == Fault::Missing) return std::nullopt;
  if (read.fault != Fault::None) {
    log_fault(file, read.decoded.reason);
    return std::nullopt;
  }
  if (spec_id_of(read.decoded->info.inputs) != spec_id) {
    log_fault(file, "it is the entry of another kernel");
    return std::nullopt;
  }
  return std::move(read.decoded.value);
}

void Prebuilt::log_fault(const fs::path& file, const std::string& reason) {
  if (!logged_.insert(file.string()).second) return;
  log(LogLevel::warn, "prebuilt kernels: {} is not used: {}", file.string(), reason);
}

}  // namespace hipflash::cache
