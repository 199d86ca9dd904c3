/// \file
/// Read-only tiers: folders of entry files and packs that were shipped with an application or the
/// library.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/entry.h"
#include "cache/pack_file.h"

namespace hipflash::cache {

/// Folders of entry files and packs, and packs, searched in order. Nothing in them is ever written
/// or removed. Thread-safe.
class Prebuilt {
 public:
  struct Refusal {
    std::string path;
    std::string reason;
  };
  struct Match {
    Entry entry;
    std::string file;    ///< The entry file or pack.
    bool exact = false;  ///< Made by the same compiler with the same options.
  };
  struct Document {
    std::string name;
    std::string text;  ///< A JSON object.
    std::string pack;  ///< Where it comes from.
  };

  /// What to search, in this order.
  struct Sources {
    std::vector<std::shared_ptr<const Pack>> packs;  ///< Already open.
    std::vector<std::filesystem::path> paths;        ///< Folders, or pack files.
    /// Beside the library: as trusted as the library is, so that entry files there serve although
    /// they cannot be signed. Packs there are asked for their signature like any.
    std::vector<std::filesystem::path> installed;
    PackTrust trust;
    bool warn = true;  ///< Log what is left out; refused() has it in any case.
  };

  /// What is missing, unreadable, damaged, unsigned where a signature is wanted, or could have been
  /// written by somebody other than the user and root is left out, each with one warning.
  explicit Prebuilt(const Sources& sources);

  /// The entry with key_of(inputs) from any source, else the first with spec_id_of(inputs),
  /// whatever compiler made it. A faulty file is passed over and logged once.
  std::optional<Match> find(const KeyInputs& inputs);

  /// The tuning results in all packs, in order of search: of two with one name, the first counts.
  std::vector<Document> documents();

  const std::vector<Refusal>& refused() const noexcept { return refused_; }

 private:
  // A folder (pack is null) or a pack.
  struct Source {
    std::filesystem::path folder;
    std::shared_ptr<const Pack> pack;
  };
  struct Candidate {
    std::size_t source;
    std::filesystem::path file;        // of a folder
    const PackEntry* entry = nullptr;  // of a pack
    std::string key;
  };

  void add(const std::filesystem::path& path, bool installed, const PackTrust& trust);
  void add_pack(const std::filesystem::path& path, const PackTrust& trust);
  void refuse(const std::filesystem::path& path, std::string reason);
  void build_index();
  std::optional<Entry> load(const Candidate& candidate, const std::string& spec_id);
  std::optional<Entry> load_file(const std::filesystem::path& file, const std::string& spec_id);
  void log_fault(const std::string& file, const std::string& reason);

  std::vector<Source> sources_;
  std::vector<Refusal> refused_;
  bool warn_;
  std::mutex mutex_;  // guards what follows
  bool indexed_ = false;
  std::unordered_map<std::string, std::vector<Candidate>> by_spec_;
  std::set<std::string> logged_;  // files whose fault was logged
};

}  // namespace hipflash::cache
