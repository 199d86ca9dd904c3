/// \file
/// Read-only tiers: folders of entry files that were shipped with an application or the library.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/entry.h"

namespace hipflash::cache {

/// Folders of entry files, searched in order. Nothing in them is ever written or removed.
/// Thread-safe.
class Prebuilt {
 public:
  struct Refusal {
    std::filesystem::path path;
    std::string reason;
  };
  struct Match {
    Entry entry;
    std::filesystem::path file;
    bool exact = false;  ///< Made by the same compiler with the same options.
  };

  /// Folders that are missing or that somebody other than the user and root could have written to
  /// are left out, each with one warning.
  /// \throws Error(NotSupported) when a path is a regular file (a pack).
  explicit Prebuilt(const std::vector<std::filesystem::path>& folders);

  /// The entry with key_of(inputs) from any folder, else the first with spec_id_of(inputs),
  /// whatever compiler made it. A faulty file is passed over and logged once.
  std::optional<Match> find(const KeyInputs& inputs);

  const std::vector<std::filesystem::path>& folders() const noexcept { return folders_; }
  const std::vector<Refusal>& refused() const noexcept { return refused_; }

 private:
  struct Candidate {
    std::filesystem::path file;
    std::string key;
  };

  void build_index();
  std::optional<Entry> load(const std::filesystem::path& file, const std::string& spec_id);
  void log_fault(const std::filesystem::path& file, const std::string& reason);

  std::vector<std::filesystem::path> folders_;
  std::vector<Refusal> refused_;
  std::mutex mutex_;  // guards what follows
  bool indexed_ = false;
  std::unordered_map<std::string, std::vector<Candidate>> by_spec_;
  std::set<std::string> logged_;  // files whose fault was logged
};

}  // namespace hipflash::cache
