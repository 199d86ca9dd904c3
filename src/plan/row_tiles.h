// How the rows of a call become blocks of a GPU: whether the query heads of a group
// share tiles, how many tiles there are, and into how many parts their keys go.
#pragma once

#include "common/attention_args.h"
#include "hipflash/problem.h"

namespace hipflash::plan {

// Rows that one query has in a tile: the query heads of a group when they are packed, else 1.
int rows_per_query(const AttentionArgs& args, bool pack_heads) noexcept;

// Rows of a sequence and K/V head with packed heads.
long long packed_rows(const AttentionArgs& args) noexcept;

// Packs where tiles of `tile_rows` rows would otherwise waste a tenth more of their rows. Never
// where a sequence alone would have other tiles than in its batch, if it must not.
bool packs_heads(const Problem& problem, int tile_rows) noexcept;

// The most queries that a choice of tiles may count on. 0: of packed sequences of a
// batch-invariant call it is unknown.
int queries_of_choice(const Problem& problem) noexcept;

// Tiles of all sequences, for one head (K/V head with packed heads). Of packed sequences there may
// be some without rows: packed_tile_of() in common/sequence.h.
long long row_tiles(const Problem& problem, const AttentionArgs& args, int tile_rows,
                    bool pack_heads) noexcept;

constexpr double kUsualFill = 0.85;

// Parts that the keys of `blocks` blocks go to, on a device that holds `slots` blocks at a time:
// the fewest that fill its rounds of blocks to a share `fill` of what the best number does. 1 where
// the device is busy without, where there are few keys, or for a device of one unit (kernels made
// ahead).
int key_splits(long long blocks, long long slots, int seq_k, int tile_keys,
               double fill = kUsualFill) noexcept;

// Of a batch-invariant call, keys are split at fixed positions or not at all.
constexpr int kInvariantKeys = 1024;  // per part; a multiple of every tile_keys
struct InvariantSplit {
  int splits, keys_per_split;
};
InvariantSplit invariant_split(const Problem& problem, const AttentionArgs& args) noexcept;

}  // namespace hipflash::plan
