#include "autotune/tuning_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/format.h"
#include "jit/source.h"

namespace hipflash::autotune {
namespace {

// Beyond this nothing is near: three powers of two of queries, or head dimensions a factor of 1.6
// apart.
constexpr double kFarthest = 3.0;
constexpr double kOtherCard = 1.0;

double dims_distance(int a, int b) {
  if (a == b) return 0.0;
  return 4.0 * std::abs(std::log2(static_cast<double>(a) / b));
}

// No value: one cannot stand for the other at all.
std::optional<double> distance(const plan::TileKey& a, const plan::TileKey& b) {
  if (a.family != b.family || a.element != b.element || a.features != b.features) {
    return std::nullopt;
  }
  const double apart = std::abs(a.queries - b.queries) + 0.5 * std::abs(a.keys - b.keys) +
                       0.25 * std::abs(a.heads - b.heads) +
                       std::max(dims_distance(a.head_dim, b.head_dim),
                                dims_distance(a.value_head_dim, b.value_head_dim));
  return apart <= kFarthest ? std::optional(apart) : std::nullopt;
}

std::string hash_of(const std::string& family) {
  return jit::find_family(family) ? jit::source_hash(family) : std::string();
}

std::string describe(const plan::TileKey& key) {
  std::string dims = fmt::format("d{}", key.head_dim);
  if (key.value_head_dim != key.head_dim) dims += fmt::format("/{}", key.value_head_dim);
  return fmt::format("{}, about {} queries, {} keys, {} heads", dims, 1LL << key.queries,
                     1LL << key.keys, 1LL << key.heads);
}

const char* name_of(DocumentSource source) {
  switch (source) {
    case DocumentSource::shipped:
      return "shipped with the library";
    case DocumentSource::pack:
      return "from a pack";
    case DocumentSource::user:
      break;
  }
  return "tuned here";
}

}  // namespace

TuningTable::TuningTable(Fingerprint device) : TuningTable(std::move(device), hash_of) {}

TuningTable::TuningTable(Fingerprint device, TextHash text_hash)
    : device_(std::move(device)), text_hash_(std::move(text_hash)) {}

void TuningTable::add(const Document& document, DocumentSource source) {
  if (!is_relative(document.device, device_)) return;
  std::map<std::string, std::string> hashes;
  const auto current = [&](const std::string& family, const std::string& text) {
    if (source == DocumentSource::shipped) return true;
    const auto [at, fresh] = hashes.try_emplace(family);
    if (fresh) at->second = text_hash_(family);
    return !text.empty() && at->second == text;
  };
  const bool other_card = document.device != device_;
  for (const Entry& entry : document.entries) {
    if (current(entry.key.family, entry.text)) {
      known_.push_back({entry, source, other_card, document.device.name});
    }
  }
  // A fault may be the card's own, but a config that failed on a relative is no loss.
  for (const Quarantined& q : document.quarantine) {
    if (current(q.family, q.text)) quarantine_.push_back(q);
  }
}

std::string TuningTable::quarantine_reason(const plan::TileKey& key,
                                           const plan::TileNumbers& tile) const {
  for (const Quarantined& q : quarantine_) {
    if (q.family == key.family && q.element == key.element && q.head_dim == key.head_dim &&
        q.value_head_dim == key.value_head_dim && q.tile == tile) {
      return q.reason;
    }
  }
  return {};
}

bool TuningTable::has_exact(const plan::TileKey& key) const {
  return std::any_of(known_.begin(), known_.end(), [&](const Known& known) {
    return known.source == DocumentSource::user && !known.other_card && known.entry.key == key;
  });
}

plan::TileSource::Answer TuningTable::nearest(const plan::TileKey& key,
                                              const Candidates& candidates) const {
  struct Near {
    double distance;
    const Known* known;
  };
  std::vector<Near> near;
  for (const Known& known : known_) {
    const std::optional<double> apart = distance(known.entry.key, key);
    if (apart) near.push_back({*apart + (known.other_card ? kOtherCard : 0.0), &known});
  }
  // Nearest first; as near: the stronger source, then the one that was added later.
  std::reverse(near.begin(), near.end());
  std::stable_sort(near.begin(), near.end(), [](const Near& a, const Near& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.known->source > b.known->source;
  });
  std::optional<std::vector<plan::TileNumbers>> possible;
  for (const auto& [apart, known] : near) {
    const Entry& entry = known->entry;
    Answer answer;
    const bool exact = apart == 0.0;
    answer.origin = exact ? plan::TileOrigin::exact : plan::TileOrigin::neighbour;
    if (!entry.is_default) {
      if (!possible) possible = candidates();
      answer.numbers = plan::matching(
          entry.tile, *possible,
          entry.key.head_dim == key.head_dim && entry.key.value_head_dim == key.value_head_dim);
      if (answer.numbers.empty() || !quarantine_reason(key, answer.numbers).empty()) continue;
    }
    answer.why = name_of(known->source);
    if (!exact) {
      answer.why += fmt::format(", nearest: {}", describe(entry.key));
      if (known->other_card) answer.why += ", on " + known->card;
    }
    answer.why += entry.is_default ? ", nothing beat the default"
                                   : fmt::format(", {:.1f}% faster", 100 * (entry.gain - 1));
    return answer;
  }
  return {plan::TileOrigin::built_in, {}, "not tuned"};
}

plan::TileSource::Answer TuningTable::find(const plan::TileKey& key,
                                           const plan::TileNumbers& standard,
                                           const Candidates& candidates) const {
  Answer answer = nearest(key, candidates);
  if (answer.numbers.empty()) {
    if (const std::string reason = quarantine_reason(key, standard); !reason.empty()) {
      for (const plan::TileNumbers& tile : candidates()) {
        if (!quarantine_reason(key, tile).empty()) continue;
        answer.numbers = tile;
        answer.why = "the built-in default is in quarantine: " + reason;
        break;
      }
    }
  }
  std::atomic<std::uint64_t>& counter = answer.origin == plan::TileOrigin::exact       ? exact_
                                        : answer.origin == plan::TileOrigin::neighbour ? neighbour_
                                                                                       : missing_;
  counter.fetch_add(1, std::memory_order_relaxed);
  return answer;
}

TuningTable::Counts TuningTable::counts() const noexcept {
  return {exact_.load(), neighbour_.load(), missing_.load()};
}

}  // namespace hipflash::autotune
