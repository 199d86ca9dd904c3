// Where a plan takes its tile config from: what was tuned, else the family's built-in default.
//
// Pure: a TileSource is asked by value and never looks at files or devices while it answers.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plan/kernel_facts.h"

namespace hipflash::plan {

// A tile config as the names and values of `struct Spec`, in the family's order.
using TileNumbers = std::vector<std::pair<std::string, int>>;

// "waves=4 tile_keys=64".
std::string to_text(const TileNumbers& numbers);

// What a tile config is chosen for. Sizes count in powers of two: a bucket is the rounded binary
// logarithm, so 2048 and 2500 share bucket 11.
struct TileKey {
  std::string family;  // file of the family
  ElementType element = ElementType::f32;
  int head_dim = 0, value_head_dim = 0;
  std::string features;                  // class: "dense", "causal+scores", "window+unaligned", ...
  int queries = 0, keys = 0, heads = 0;  // buckets of seq_q, seq_k and batch * heads_q

  friend bool operator==(const TileKey&, const TileKey&) = default;
};

int size_bucket(long long count) noexcept;

// `variant` tells problems of a family apart that take other configs for a reason of its own.
TileKey tile_key(const std::string& family, const KernelFacts& facts, const AttentionArgs& args,
                 const std::string& variant = {});

const char* element_name(ElementType element) noexcept;  // "f16", "bf16", "f32"

enum class TileOrigin {
  built_in,   // nothing is known for this key or near it
  exact,      // tuned for this key on this card
  neighbour,  // tuned for a size, head dimension or card nearby
};

class TileSource {
 public:
  // The configs that the family may take for the problem, made when they are looked at.
  using Candidates = std::function<std::vector<TileNumbers>()>;

  struct Answer {
    TileOrigin origin = TileOrigin::built_in;
    TileNumbers numbers;  // one of the candidates; empty: the built-in default
    std::string why;      // a phrase for explain
  };

  virtual ~TileSource() = default;
  // `standard` is the built-in default, which need not be one of the candidates.
  virtual Answer find(const TileKey& key, const TileNumbers& standard,
                      const Candidates& candidates) const = 0;
};

// The candidate with these numbers; empty if there is none. A config tuned for another value head
// dimension (`same_dims` false) leaves value_slice, which follows from it, to the candidate.
TileNumbers matching(const TileNumbers& numbers, const std::vector<TileNumbers>& candidates,
                     bool same_dims);

// What a plan says of its choice.
struct TileChoice {
  TileKey key;
  TileNumbers numbers;
  TileOrigin origin = TileOrigin::built_in;
  bool is_default = true;  // the numbers are the built-in default's
  std::string why;         // empty without a source
};

// Why this family and config: `family_reason` with what the source said.
std::string reason_of(const TileChoice& choice, const std::string& family_reason);

}  // namespace hipflash::plan
