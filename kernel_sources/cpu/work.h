// How a CPU family's work is cut up: the run-time numbers that a plan chooses and both sides use.
//
// Part of the kernel text (so it includes no system header) and also compiled into the library.
//
// All query heads that share a key/value head are handled together: "row" r of such a pair (batch,
// key/value head) is query r / group of head r % group within the group. A chunk of rows walks over
// its keys once, so what is packed of K and V serves the whole chunk.
#pragma once

#include "common/attention_args.h"
#include "cpu/shape.h"

namespace hipflash {

// Run-time numbers, chosen by plan_cpu_work(). Results do not depend on them beyond rounding, and
// on pairs_per_item not at all.
struct CpuWork {
  long long pairs;          // (batch, key/value heads); packed: (tile of queries, key/value heads)
  int heads_together;       // key/value heads of a pair, see cpu_heads_together()
  int rows_per_item;        // rows of one chunk; packed: whole queries
  int chunks;               // chunks of rows of one pair; packed: 1, its tile
  int pairs_per_item;       // pairs that one item handles one after the other
  long long items;          // items of attention_forward; lower numbers are the heavier ones
  long long merge_items;    // items of attention_merge, to run after all of attention_forward
  long long scratch_bytes;  // what each thread needs for either
  long long cache_bytes;    // of the last level; what exceeds it may be written past the caches
};

// The tile config of a CPU kernel: the prologue's numbers of the same names.
struct CpuTile {
  int tile_queries;   // rows of a query block, a multiple of micro_rows
  int tile_keys;      // keys packed at a time, a multiple of micro_vectors * lanes
  int micro_rows;     // rows of the register block
  int micro_vectors;  // vectors of the register block's rows
};

// Pieces of a thread's scratch, as offsets in bytes.
struct CpuScratch {
  long long queries, output, keys, values, scores;
  long long row_max, minus_max, row_sum, rescale, lane_sums, lane_sums_before;
  long long joined, totals;  // where a chunk joins parts of its keys
  long long bytes;
  int value_columns;  // row length of `output` and `joined`, in floats
};

constexpr long long cpu_round_up(long long x, long long multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

constexpr CpuScratch cpu_scratch(const CpuTile& tile, int head_dim, int value_head_dim,
                                 const CpuWork& work, bool joins_parts) {
  constexpr long long kWord = 4;  // an f32 or two bf16
  constexpr long long kMostLanes = 16;
  constexpr long long kColumnMultiple = 64;  // no register block is wider
  const long long few_rows = static_cast<long long>(kCpuFewRows) * work.heads_together;
  const long long rows = cpu_round_up(work.rows_per_item > few_rows ? work.rows_per_item : few_rows,
                                      tile.tile_queries);
  const long long columns = cpu_round_up(value_head_dim, kColumnMultiple);
  CpuScratch s = {};
  s.value_columns = static_cast<int>(columns);
  s.queries = 0;
  const long long few = few_rows * cpu_round_up(head_dim, kMostLanes);  // in whole vectors
  s.output = s.queries + cpu_round_up((rows * head_dim > few ? rows * head_dim : few) * kWord, 64);
  s.keys = s.output + rows * columns * kWord;
  s.values = s.keys + cpu_round_up(static_cast<long long>(tile.tile_keys) * head_dim * kWord, 64);
  s.scores = s.values + tile.tile_keys * columns * kWord;
  s.row_max = s.scores +
              cpu_round_up(static_cast<long long>(tile.tile_queries) * tile.tile_keys * kWord, 64);
  s.minus_max = s.row_max + cpu_round_up(rows * kWord, 64);
  s.row_sum = s.minus_max + cpu_round_up(rows * kWord, 64);
  s.rescale = s.row_sum + cpu_round_up(rows * kWord, 64);
  s.lane_sums = s.rescale + cpu_round_up(rows * kWord, 64);
  s.lane_sums_before = s.lane_sums + rows * kMostLanes * kWord;
  s.joined = s.lane_sums_before + tile.tile_queries * kMostLanes * kWord;
  const long long joined_rows = joins_parts ? tile.tile_queries : 0;
  s.totals = s.joined + joined_rows * columns * kWord;
  s.bytes = s.totals + cpu_round_up(joined_rows * 2 * kWord, 64);
  return s;
}

// Rows of attention_merge that one item handles.
constexpr int kMergeRows = 64;

// Queries that share the chunks of rows_per_item rows: whole ones, so that packed sequences are cut
// where dense ones are.
constexpr long long cpu_queries_of(long long rows, int group) {
  return rows / group > 1 ? rows / group : 1;
}

constexpr int kMostHeadsTogether = 32;

// How many parts of its keys a walk may be cut into, so that each is worth its merge.
constexpr long long cpu_possible_splits(const AttentionArgs& args, const CpuTile& tile) {
  return args.seq_k / (4LL * tile.tile_keys);
}

// Key/value heads that few rows walk over together, key by key: where the heads of a token lie side
// by side, memory is then read in the order in which it lies. Fewer where threads would run out of
// walks. Batch-invariant calls take heads alone, since their bits depend on neither.
constexpr int cpu_heads_together(const AttentionArgs& args, const CpuTile& tile, int threads) {
  constexpr int kKeysWorth = 64;
  const auto side_by_side = [](const RowStrides& stride) {
    return stride.head > 0 && stride.head < stride.seq;
  };
  const long long rows = static_cast<long long>(args.seq_q) * (args.heads_q / args.heads_kv);
  if (rows > kCpuFewRows || args.seq_k < kKeysWorth || args.keys_per_split > 0 ||
      !side_by_side(args.k_stride) || !side_by_side(args.v_stride)) {
    return 1;
  }
  const long long splits = cpu_possible_splits(args, tile);
  const auto enough = [&](int together) {
    const long long walks = args.heads_kv / together * (splits > 1 ? splits : 1) * args.batch;
    return threads <= 1 || walks >= 4LL * threads;
  };
  int together = args.heads_kv < kMostHeadsTogether ? args.heads_kv : kMostHeadsTogether;
  while (together > 1 && (args.heads_kv % together != 0 || !enough(together))) --together;
  return together;
}

// Cuts a call into items for `threads` threads. Only sizes and strides are read; args.splits is
// honoured, see cpu_key_splits(). Of ragged calls seq_q and seq_k are the longest sequence's.
inline CpuWork plan_cpu_work(const AttentionArgs& args, const CpuTile& tile, int threads) {
  CpuWork work = {};
  if (args.batch <= 0 || args.heads_q <= 0 || args.heads_kv <= 0 || args.seq_q <= 0) return work;
  const int group = args.heads_q / args.heads_kv;
  const bool packed = args.total_q > 0;
  const bool invariant = args.keys_per_split > 0;
  const long long rows = static_cast<long long>(args.seq_q) * group;
  const long long all_rows =
      packed ? static_cast<long long>(args.total_q) * group : rows * args.batch;
  const int splits = args.splits > 1 ? args.splits : 1;

  // Chunks as large as fits the second-level cache, smaller when threads would run out of items.
  long long per_item = args.head_dim + args.value_head_dim <= 256 ? 1024 : 512;
  if (invariant) {
    per_item = cpu_queries_of(2LL * tile.tile_queries, group) * group;  // whatever else there is
    if (per_item > rows) per_item = rows;
  } else {
    if (per_item > rows) per_item = rows;
    const auto items = [&](long long size) {
      const long long chunks =
          packed ? (all_rows + size - 1) / size : args.batch * ((rows + size - 1) / size);
      return chunks * args.heads_kv * splits;
    };
    while (per_item > tile.tile_queries && items(per_item) < 4LL * threads) {
      per_item = (per_item + 1) / 2;
    }
    if (per_item > tile.tile_queries) per_item = cpu_round_up(per_item, tile.tile_queries);
    if (packed) per_item = cpu_queries_of(per_item, group) * group;
  }
  work.rows_per_item = static_cast<int>(per_item);
  work.chunks = packed ? 1 : static_cast<int>((rows + per_item - 1) / per_item);
  const long long places =
      packed ? args.total_q / (per_item / group) + args.batch : args.batch;  // as in sequence.h
  work.heads_together = cpu_heads_together(args, tile, threads);
  work.pairs = places * (args.heads_kv / work.heads_together);

  // Tiny problems: several pairs per item, so that handing out work costs nothing beside it.
  constexpr long long kWorthHandingOut = 1 << 18;  // multiply-adds
  const long long cost = 1 + per_item * work.heads_together * args.seq_k *
                                 (args.head_dim + args.value_head_dim) / splits;
  long long together = kWorthHandingOut / cost;
  const long long at_most = work.pairs / (8LL * threads);
  if (together > at_most) together = at_most;
  work.pairs_per_item = static_cast<int>(together > 1 ? together : 1);
  const long long groups = (work.pairs + work.pairs_per_item - 1) / work.pairs_per_item;
  work.items = groups * splits * work.chunks;
  const long long merge_rows =
      static_cast<long long>(args.partial_batch) * args.heads_q * args.partial_seq;
  work.merge_items = splits > 1 ? (merge_rows + kMergeRows - 1) / kMergeRows : 0;
  work.scratch_bytes = cpu_scratch(tile, args.head_dim, args.value_head_dim, work, invariant).bytes;
  return work;
}

// Keys at which sequences are cut where the bits must not depend on the batch: a multiple of every
// tile's keys, and enough for a part to be worth its joining.
constexpr int kFixedKeysPerSplit = 1024;

// How many parts to split the keys into: 1 unless chunks of rows alone cannot busy the threads.
// `seen_keys` is the number of keys that blocks of tile_queries rows walk over, of all sequences
// and key/value heads; args.seq_k the longest sequence's. args.keys_per_split is honoured.
inline int cpu_key_splits(const AttentionArgs& args, const CpuTile& tile, int threads,
                          long long seen_keys) {
  if (seen_keys <= 0 || args.seq_k <= 0) return 1;
  seen_keys = (seen_keys - 1) / cpu_heads_together(args, tile, threads) + 1;
  // The longest walk should be no longer than half of a thread's share.
  const long long wanted = (2LL * threads * args.seq_k + seen_keys - 1) / seen_keys;
  if (wanted <= 1) return 1;
  const long long possible = cpu_possible_splits(args, tile);
  long long splits = wanted < possible ? wanted : possible;
  if (args.keys_per_split > 0) {
    splits = (static_cast<long long>(args.seq_k) + args.keys_per_split - 1) / args.keys_per_split;
  }
  // Where rows are many although keys are few, partial results would be the larger problem.
  constexpr long long kMostPartials = 1LL << 26;  // floats
  const long long partials = static_cast<long long>(args.partial_batch) * args.heads_q *
                             args.partial_seq * (args.value_head_dim + 1);
  if (splits * partials > kMostPartials) return 1;
  return static_cast<int>(splits > 1 ? splits : 1);
}

// The same of a call whose sequences are all as long as seq_q and seq_k.
inline int cpu_key_splits(const AttentionArgs& args, const CpuTile& tile, int threads) {
  if (args.heads_kv <= 0) return 1;
  const long long rows = static_cast<long long>(args.seq_q) * (args.heads_q / args.heads_kv);
  const long long blocks = (rows + tile.tile_queries - 1) / tile.tile_queries;
  return cpu_key_splits(args, tile, threads,
                        static_cast<long long>(args.batch) * args.heads_kv * blocks * args.seq_k);
}

}  // namespace hipflash
