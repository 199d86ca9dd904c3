// How a CPU family's work is cut up: the run-time numbers that a plan chooses and both sides use.
//
// Part of the kernel text (so it includes no system header) and also compiled into the library.
//
// All query heads that share a key/value head are handled together: "row" r of such a pair (batch,
// key/value head) is query r / group of head r % group within the group. A chunk of rows walks over
// its keys once, so what is packed of K and V serves the whole chunk.
#pragma once

#include "common/attention_args.h"

namespace hipflash {

// Run-time numbers, chosen by plan_cpu_work(). Results do not depend on them beyond rounding, and
// on pairs_per_item not at all.
struct CpuWork {
  int rows_per_item;        // rows of one chunk
  int chunks;               // chunks of rows of one pair
  int pairs_per_item;       // pairs that one item handles one after the other
  long long items;          // items of attention_forward; lower numbers are the heavier ones
  long long merge_items;    // items of attention_merge, to run after all of attention_forward
  long long scratch_bytes;  // what each thread needs for either
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
  long long queries, output, keys, values, scores, row_max, row_sum, rescale, bytes;
  int value_columns;  // row length of `output`, in floats
};

constexpr long long cpu_round_up(long long x, long long multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

constexpr CpuScratch cpu_scratch(const CpuTile& tile, int head_dim, int value_head_dim,
                                 int rows_per_item) {
  constexpr long long kWord = 4;             // an f32 or two bf16
  constexpr long long kColumnMultiple = 64;  // no register block is wider
  const long long rows = cpu_round_up(rows_per_item, tile.tile_queries);
  const long long columns = cpu_round_up(value_head_dim, kColumnMultiple);
  CpuScratch s = {};
  s.value_columns = static_cast<int>(columns);
  s.queries = 0;
  s.output = s.queries + cpu_round_up(rows * head_dim * kWord, 64);
  s.keys = s.output + rows * columns * kWord;
  s.values = s.keys + cpu_round_up(static_cast<long long>(tile.tile_keys) * head_dim * kWord, 64);
  s.scores = s.values + tile.tile_keys * columns * kWord;
  s.row_max = s.scores +
              cpu_round_up(static_cast<long long>(tile.tile_queries) * tile.tile_keys * kWord, 64);
  s.row_sum = s.row_max + cpu_round_up(rows * kWord, 64);
  s.rescale = s.row_sum + cpu_round_up(rows * kWord, 64);
  s.bytes = s.rescale + cpu_round_up(rows * kWord, 64);
  return s;
}

// Rows of attention_merge that one item handles.
constexpr int kMergeRows = 64;

// Cuts a call into items for `threads` threads. Only sizes in `args` are read; args.splits is
// honoured, see cpu_key_splits().
inline CpuWork plan_cpu_work(const AttentionArgs& args, const CpuTile& tile, int threads) {
  CpuWork work = {};
  if (args.batch <= 0 || args.heads_q <= 0 || args.heads_kv <= 0 || args.seq_q <= 0) return work;
  const long long pairs = static_cast<long long>(args.batch) * args.heads_kv;
  const long long rows = static_cast<long long>(args.seq_q) * (args.heads_q / args.heads_kv);
  const int splits = args.splits > 1 ? args.splits : 1;

  // Chunks as large as fits the second-level cache, smaller when threads would run out of items.
  long long per_item = args.head_dim + args.value_head_dim <= 256 ? 1024 : 512;
  if (per_item > rows) per_item = rows;
  while (per_item > tile.tile_queries &&
         pairs * splits * ((rows + per_item - 1) / per_item) < 4LL * threads) {
    per_item = (per_item + 1) / 2;
  }
  if (per_item > tile.tile_queries) per_item = cpu_round_up(per_item, tile.tile_queries);
  work.rows_per_item = static_cast<int>(per_item);
  work.chunks = static_cast<int>((rows + per_item - 1) / per_item);

  // Tiny problems: several pairs per item, so that handing out work costs nothing beside it.
  constexpr long long kWorthHandingOut = 1 << 18;  // multiply-adds
  const long long cost = 1 + per_item * args.seq_k * (args.head_dim + args.value_head_dim) / splits;
  long long together = kWorthHandingOut / cost;
  const long long at_most = pairs / (8LL * threads);
  if (together > at_most) together = at_most;
  work.pairs_per_item = static_cast<int>(together > 1 ? together : 1);
  const long long groups = (pairs + work.pairs_per_item - 1) / work.pairs_per_item;
  work.items = groups * splits * work.chunks;
  const long long merge_rows = static_cast<long long>(args.batch) * args.heads_q * args.seq_q;
  work.merge_items = splits > 1 ? (merge_rows + kMergeRows - 1) / kMergeRows : 0;
  work.scratch_bytes =
      cpu_scratch(tile, args.head_dim, args.value_head_dim, work.rows_per_item).bytes;
  return work;
}

// How many parts to split the keys into: 1 unless chunks of rows alone cannot busy the threads.
inline int cpu_key_splits(const AttentionArgs& args, const CpuTile& tile, int threads) {
  if (args.batch <= 0 || args.heads_kv <= 0 || args.seq_q <= 0) return 1;
  const long long pairs = static_cast<long long>(args.batch) * args.heads_kv;
  const long long rows = static_cast<long long>(args.seq_q) * (args.heads_q / args.heads_kv);
  const long long items = pairs * ((rows + tile.tile_queries - 1) / tile.tile_queries);
  if (items >= 2LL * threads) return 1;
  const long long wanted = (2LL * threads + items - 1) / items;
  const long long possible = args.seq_k / (4LL * tile.tile_keys);  // a split worth its merge
  const long long splits = wanted < possible ? wanted : possible;
  return static_cast<int>(splits > 1 ? splits : 1);
}

}  // namespace hipflash
