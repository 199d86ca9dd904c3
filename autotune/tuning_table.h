// What a Context knows of tuning: the documents that concern its device, searched by plans.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autotune/document.h"
#include "plan/tile_choice.h"

namespace hipflash::autotune {

// The further down, the stronger.
enum class DocumentSource {
  shipped,  // with the library; reviewed with its kernels, so its text hashes do not count
  pack,     // with a pack file
  user,     // the user's store
};

class TuningTable final : public plan::TileSource {
 public:
  // Hash of a family's kernel text, as jit::source_hash; another one only in tests.
  using TextHash = std::function<std::string(const std::string& family)>;

  explicit TuningTable(Fingerprint device);
  TuningTable(Fingerprint device, TextHash text_hash);

  // Ignored if the document is of another architecture. Not after plans began to ask.
  void add(const Document& document, DocumentSource source);

  // The nearest known entry whose config is among the candidates and not in quarantine. Distance
  // counts steps of size buckets, factors between head dimensions, and whether it is another card.
  // A built-in default in quarantine gives way to the first candidate that is not.
  Answer find(const plan::TileKey& key, const plan::TileNumbers& standard,
              const Candidates& candidates) const override;

  // Why a config is in quarantine on this device; empty if it is not.
  std::string quarantine_reason(const plan::TileKey& key, const plan::TileNumbers& tile) const;

  // True if this device's own user store has the key.
  bool has_exact(const plan::TileKey& key) const;

  const Fingerprint& device() const noexcept { return device_; }
  std::size_t size() const noexcept { return known_.size(); }

  struct Counts {
    std::uint64_t exact = 0, neighbour = 0, missing = 0;
  };
  Counts counts() const noexcept;

 private:
  struct Known {
    Entry entry;
    DocumentSource source;
    bool other_card;
    std::string card;  // for explain
  };

  Answer nearest(const plan::TileKey& key, const Candidates& candidates) const;

  const Fingerprint device_;
  const TextHash text_hash_;
  std::vector<Known> known_;
  std::vector<Quarantined> quarantine_;
  mutable std::atomic<std::uint64_t> exact_{0}, neighbour_{0}, missing_{0};
};

}  // namespace hipflash::autotune
