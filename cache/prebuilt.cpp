#include "cache/prebuilt.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "cache/directory.h"
#include "cache/entry_file.h"
#include "cache/io.h"
#include "core/format.h"
#include "core/log.h"

namespace hipflash::cache {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder, std::string_view suffix) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (at->path().extension() == suffix) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());  // the same choice on every machine
  return files;
}

}  // namespace

Prebuilt::Prebuilt(const Sources& sources) : warn_(sources.warn) {
  for (const auto& pack : sources.packs) sources_.push_back({{}, pack});
  for (const fs::path& path : sources.paths) add(path, /*installed=*/false, sources.trust);
  for (const fs::path& path : sources.installed) add(path, /*installed=*/true, sources.trust);
}

void Prebuilt::add(const fs::path& path, bool installed, const PackTrust& trust) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return refuse(path, io::error_text(errno));
  if (S_ISREG(status.st_mode)) return add_pack(path, trust);
  if (!S_ISDIR(status.st_mode)) return refuse(path, "is neither a folder nor a pack");
  if (std::string reason = untrusted_reason(status); !reason.empty()) {
    return refuse(path, std::move(reason));
  }
  if (access(path.c_str(), R_OK | X_OK) != 0) return refuse(path, io::error_text(errno));
  if (installed || trust.keys.empty()) {
    sources_.push_back({path, nullptr});
  } else if (!files_in(path, kEntrySuffix).empty()) {
    refuse(path,
           "its entry files are not signed, and only packs signed by a trusted key are taken");
  }
  for (const fs::path& file : files_in(path, kPackSuffix)) add_pack(file, trust);
}

void Prebuilt::add_pack(const fs::path& path, const PackTrust& trust) {
  auto opened = Pack::open(path.string(), trust);
  if (!opened) return refuse(path, std::move(opened.reason));
  sources_.push_back({{}, std::move(*opened)});
}

void Prebuilt::refuse(const fs::path& path, std::string reason) {
  if (warn_) log(LogLevel::warn, "prebuilt kernels: {} is not used: {}", path.string(), reason);
  refused_.push_back({path.string(), std::move(reason)});
}

std::optional<Prebuilt::Match> Prebuilt::find(const KeyInputs& inputs) {
  if (sources_.empty()) return std::nullopt;
  const std::string key = key_of(inputs);
  const std::string spec_id = spec_id_of(inputs);
  const std::lock_guard guard(mutex_);

  // By the name that the user's cache gives its entries: no index needed.
  for (const Source& source : sources_) {
    if (source.pack) continue;
    const fs::path file = source.folder / (key + std::string(kEntrySuffix));
    if (std::optional<Entry> entry = load_file(file, spec_id);
        entry && key_of(entry->info.inputs) == key)
      return Match{std::move(*entry), file.string(), true};
  }
  if (!indexed_) build_index();
  const auto at = by_spec_.find(spec_id);
  if (at == by_spec_.end()) return std::nullopt;
  for (const bool exact : {true, false}) {
    for (const Candidate& candidate : at->second) {
      if ((candidate.key == key) != exact) continue;
      const Source& source = sources_[candidate.source];
      if (std::optional<Entry> entry = load(candidate, spec_id)) {
        return Match{std::move(*entry), source.pack ? source.pack->name() : candidate.file.string(),
                     exact};
      }
    }
  }
  return std::nullopt;
}

std::vector<Prebuilt::Document> Prebuilt::documents() {
  std::vector<Document> found;
  const std::lock_guard guard(mutex_);
  for (const Source& source : sources_) {
    if (!source.pack) continue;
    for (const PackDocument& document : source.pack->documents()) {
      if (auto text = source.pack->document(document)) {
        found.push_back({document.name, std::move(*text), source.pack->name()});
      } else {
        log_fault(source.pack->name() + ": " + document.name, text.reason);
      }
    }
  }
  return found;
}

// Reads the header of every file, once per process.
void Prebuilt::build_index() {
  indexed_ = true;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].pack) {
      for (const PackEntry& entry : sources_[i].pack->entries()) {
        by_spec_[entry.spec_id].push_back({i, {}, &entry, entry.key});
      }
      continue;
    }
    for (const fs::path& file : files_in(sources_[i].folder, kEntrySuffix)) {
      FileRead<EntryHeader> read = read_entry_header(file, Links::Follow);
      if (read.fault == Fault::None) {
        by_spec_[read.decoded->spec_id].push_back({i, file, nullptr, std::move(read.decoded->key)});
      } else {
        log_fault(file.string(), read.decoded.reason);
      }
    }
  }
}

std::optional<Entry> Prebuilt::load(const Candidate& candidate, const std::string& spec_id) {
  if (candidate.entry == nullptr) return load_file(candidate.file, spec_id);
  const Pack& pack = *sources_[candidate.source].pack;
  Decoded<Bytes> code = pack.code(*candidate.entry);
  if (code) return Entry{candidate.entry->info, std::move(*code)};
  log_fault(fmt::format("{}: {}", pack.name(), candidate.key), code.reason);
  return std::nullopt;
}

std::optional<Entry> Prebuilt::load_file(const fs::path& file, const std::string& spec_id) {
  FileRead<Entry> read = read_entry_file(file, Links::Follow);
  if (read.fault == Fault::Missing) return std::nullopt;
  if (read.fault != Fault::None) {
    log_fault(file.string(), read.decoded.reason);
    return std::nullopt;
  }
  if (spec_id_of(read.decoded->info.inputs) != spec_id) {
    log_fault(file.string(), "it is the entry of another kernel");
    return std::nullopt;
  }
  return std::move(read.decoded.value);
}

void Prebuilt::log_fault(const std::string& file, const std::string& reason) {
  if (!logged_.insert(file).second) return;
  log(LogLevel::warn, "prebuilt kernels: {} is not used: {}", file, reason);
}

}  // namespace hipflash::cache
