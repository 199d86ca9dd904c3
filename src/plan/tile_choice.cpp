#include "plan/tile_choice.h"

#include <algorithm>
#include <bit>

#include "core/format.h"

namespace hipflash::plan {

std::string to_text(const TileNumbers& numbers) {
  std::string text;
  for (const auto& [name, value] : numbers) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

// round(log2(count)): 2^b is the nearest when count^2 lies between 2^(2b-1) and 2^(2b+1).
int size_bucket(long long count) noexcept {
  if (count <= 1) return 0;
  const auto value = static_cast<unsigned long long>(count);
  const int floor = std::bit_width(value) - 1;
  if (floor >= 31) return floor;
  return value * value >= 1ULL << (2 * floor + 1) ? floor + 1 : floor;
}

TileKey tile_key(const std::string& family, const KernelFacts& facts, const AttentionArgs& args,
                 const std::string& variant) {
  TileKey key;
  key.family = family;
  key.element = facts.element;
  key.head_dim = args.head_dim;
  key.value_head_dim = args.value_head_dim;
  key.features = facts.window_left ? "window" : facts.window_right ? "causal" : "dense";
  if (facts.softcap || facts.alibi || facts.bias || facts.mask) key.features += "+scores";
  if (facts.sinks) key.features += "+sinks";
  if (facts.ragged) key.features += facts.paged ? "+paged" : "+ragged";
  if (!facts.aligned) key.features += "+unaligned";
  if (!variant.empty()) key.features += "+" + variant;
  key.queries = size_bucket(args.seq_q);
  key.keys = size_bucket(args.seq_k);
  key.heads = size_bucket(static_cast<long long>(args.batch) * args.heads_q);
  return key;
}

TileNumbers matching(const TileNumbers& numbers, const std::vector<TileNumbers>& candidates,
                     bool same_dims) {
  const auto same = [&](const TileNumbers& other) {
    return std::equal(numbers.begin(), numbers.end(), other.begin(), other.end(),
                      [&](const auto& a, const auto& b) {
                        return a.first == b.first &&
                               (a.second == b.second || (!same_dims && a.first == "value_slice"));
                      });
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), same);
  return found == candidates.end() ? TileNumbers() : *found;
}

std::string reason_of(const TileChoice& choice, const std::string& family_reason) {
  return choice.why.empty() ? family_reason : family_reason + ": " + choice.why;
}

const char* element_name(ElementType element) noexcept {
  switch (element) {
    case ElementType::f16:
      return "f16";
    case ElementType::bf16:
      return "bf16";
    case ElementType::f32:
      return "f32";
  }
  return "?";
}

}  // namespace hipflash::plan
