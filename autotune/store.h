// The tuning store on disk: one document per machine in a folder of the user.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/document.h"
#include "autotune/tuning_table.h"
#include "cache/lock.h"

namespace hipflash::autotune {

// HIPFLASH_TUNING, else $XDG_DATA_HOME/hipflash/tuning, else ~/.local/share/hipflash/tuning. Empty
// when the user has no home. Measured results are data, not a cache: clearing caches keeps them.
std::filesystem::path default_store_folder();

// HIPFLASH_TUNING=off: built-in defaults everywhere.
bool tuning_is_off();

// Documents that are part of the library (autotune/tuned/), by file name.
struct ShippedDocument {
  std::string_view name;  // "sm_90a-....json"
  std::string_view text;
};
const std::vector<ShippedDocument>& shipped_documents();

class Store {
 public:
  explicit Store(std::filesystem::path folder);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::filesystem::path document_path(const Fingerprint& device) const;

  // All documents that may serve the device. One that cannot be read is passed over with one
  // warning and left where it is. Never throws.
  std::vector<Document> read_relatives(const Fingerprint& device) const;

  // This very device's; empty if there is none that can be read.
  Document read(const Fingerprint& device) const;

  // Reads, merges and replaces the device's document, one writer at a time: other processes' news
  // stay, and a reader sees the old document or the new one. A document that cannot be read is
  // kept beside it under another name. Throws Error(CacheUnusable) if the folder cannot be written.
  void add(const Document& news);

  // A file of the folder; empty if it cannot be read.
  std::string read_text(const std::string& name) const;

  // Replaces a file of the folder in the same way, for what goes with the documents.
  void update_file(const std::string& name,
                   const std::function<std::string(const std::string& before)>& change);

  // Held by whoever tunes the device. Waits until it is free as long as `go_on()` says so.
  cache::FileLock lock_tuner(const Fingerprint& device, const std::function<bool()>& go_on);

 private:
  void make_usable();

  std::filesystem::path folder_;
};

// What a Context on this device uses: shipped results, those of `packs` (JSON documents), the
// user's store. Read once, so that all plans of a Context agree.
void load_table(TuningTable& table, const std::vector<std::string>& packs = {});

}  // namespace hipflash::autotune
