// Attention forward for CDNA, and for the host under sanitizers.
//
//   S^T = K Q^T,   P^T = exp2(S^T * scale - reference),   O^T = V^T P^T
//
// A wave owns kRows queries, one per lane of a group, so the softmax state is a scalar per lane,
// and the results of the first product are the operand of the second: P never leaves its registers.
//
// A block passes over its tiles of kKeys keys in shared memory. A step has two phases: in the first
// K is read, in the second V. Beside them the next tiles come, through registers
// (tile/cdna/staged.h) or straight (tile/cdna/direct.h). Both phases run in steps of one fragment,
// each with a slice of the side work, in exactly the written order.
//
// Tile config: waves, mma_rows, tile_keys, waves_per_simd, read_ahead, stages (tiles_cdna.h); dies,
// the number of dies with an L2 of their own (a power of two); pack_heads (tile/amd/block_rows.h);
// largest_head_dim, what a general config is built for.
//
// Ragged calls: a block takes its sequence out of the call (common/sequence.h) and works on it as
// on a call of its own. Where keys are in pages, the loaders find their rows (tile/amd/pages.h).
#if defined(__AMDGCN__)
#include "gpu/tile/amd/hip.h"
#else
#include "gpu/tile/amd/host.h"
#endif
#include "common/mask.h"
#include "common/partials.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tile/cdna/types.h"
#if defined(__AMDGCN__)
#include "gpu/tile/cdna/mfma.h"
#else
#include "gpu/tile/cdna/host_mma.h"
#endif
#include "gpu/tile/amd/block_rows.h"
#include "gpu/tile/amd/sink.h"
#include "gpu/tile/cdna/elementwise.h"
#include "gpu/tile/cdna/output.h"
#include "gpu/tile/cdna/softmax.h"

#include "gpu/tile/amd/merge.h"

namespace hipflash {

// What a block works on. `tile` counts kBlockRows rows of the sequence from its first; with packed
// queries `tile` is one of the numbers that packed_tile_of() knows, until the sequence is.
struct Work {
  int batch, head, kv_head, tile, split;
};

// Blocks start round-robin over the dies. Each die gets whole heads, neighbours first, so query
// heads that share K and V share an L2. If heads do not divide by the dies, groups of dies share
// them.
HF_DEVICE Work work_of_block(const AttentionArgs& args, int block) {
  const int heads_of_batch = Spec::pack_heads ? args.heads_kv : args.heads_q;
  const bool packed_queries = Spec::ragged && args.cu_seqlens_q;
  const int heads = packed_queries ? heads_of_batch : args.batch * heads_of_batch;
  int dies = Spec::dies;
  while (heads % dies) dies /= 2;
  const int heads_of_die = heads / dies, slot = block / dies;
  const int index = block % dies * heads_of_die + slot % heads_of_die;
  const int part = slot / heads_of_die;
  const int head = index % heads_of_batch, group = args.heads_q / args.heads_kv;
  Work work;
  work.batch = index / heads_of_batch;
  work.head = Spec::pack_heads ? head * group : head;
  work.kv_head = Spec::pack_heads ? head : head / group;
  work.split = Spec::split_keys ? part % args.splits : 0;
  work.tile = Spec::split_keys ? part / args.splits : part;
  if (packed_queries) {
    const PackedTile packed = packed_tile_of(args, work.tile, kBlockRows, rows_per_query(args));
    work.batch = packed.sequence;
    work.tile = packed.tile;
  }
  return work;
}

// Later rows come first: under a causal mask they are the heaviest. Negative: no rows are left for
// this tile.
HF_DEVICE int first_row_of(const AttentionArgs& args, const Work& work) {
  const int tiles = (rows_of_head(args) + kBlockRows - 1) / kBlockRows;
  if (Spec::ragged && work.tile >= tiles) return -1;
  return (Spec::window_right ? tiles - 1 - work.tile : work.tile) * kBlockRows;
}

// The part of a block's keys that its split has: whole tiles, or the keys of a fixed part of the
// sequence.
HF_DEVICE KeyRange keys_of_split(const AttentionArgs& args, KeyRange keys, int split) {
  if constexpr (!Spec::split_keys) return keys;
  if (args.keys_per_split > 0) {
    const long long from = static_cast<long long>(args.keys_per_split) * split;
    const long long to = from + args.keys_per_split;
    return {from > keys.first ? from < keys.end ? static_cast<int>(from) : keys.end : keys.first,
            to < keys.end ? static_cast<int>(to) : keys.end};
  }
  const int tiles = (keys.end - keys.first + kKeys - 1) / kKeys;
  const int share = (tiles + args.splits - 1) / args.splits * kKeys;
  const long long first = keys.first + static_cast<long long>(share) * split;
  const long long end = first + share;
  return {first < keys.end ? static_cast<int>(first) : keys.end,
          end < keys.end ? static_cast<int>(end) : keys.end};
}

// A block's tiles as one of its waves sees them: it masks some before and after those that all of
// its queries see fully, and idles through the rest. Counted from the block's first tile.
struct Passes {
  int see, full, masked_again, idle, end;
};

HF_DEVICE Passes passes_of(KeyRange block, KeyRange some, KeyRange all) {
  const int tiles = block.first < block.end ? (block.end - block.first + kKeys - 1) / kKeys : 0;
  // (max and min would become vector instructions, and with them all that depends on the loop)
  const int see = some.first > block.first ? (some.first - block.first) / kKeys : 0;
  const int end = some.end < block.end ? some.end : block.end;
  const int idle = end > block.first ? (end - block.first + kKeys - 1) / kKeys : 0;
  int full = all.first > block.first ? (all.first - block.first + kKeys - 1) / kKeys : 0;
  const int last = all.end < block.end ? all.end : block.end;
  int again = last > block.first ? (last - block.first) / kKeys : 0;
  if (see >= idle || some.first >= some.end) return {tiles, tiles, tiles, tiles, tiles};
  if (full >= again) full = again = see;
  return {see, full, again, idle, tiles};
}

// A block's rows, for a call with one sequence of each batch index. `fault`: the sequence's numbers
// cannot be right.
HF_DEVICE void attend(const AttentionArgs& args, const Work& work, int first_row, int fault) {
  HF_SHARED(shared, Tiles::kSharedBytes);

  const int rows = rows_of_head(args);
  const int wave_row = first_row + wave_id() * kRows;  // first one of the wave
  const int wave_rows = rows - wave_row < kRows ? rows - wave_row : kRows;
  const int last_of_block = first_row + kBlockRows < rows ? first_row + kBlockRows - 1 : rows - 1;
  const KeyRange keys = keys_of_split(
      args,
      keys_seen_by_any(args, query_of_row(args, first_row), query_of_row(args, last_of_block)),
      work.split);
  // (how this is written decides whether the compiler keeps the hot loops apart and free of moves)
  Passes pass = {};
  {
    if (wave_rows > 0) {
      const int first = query_of_row(args, wave_row);
      const int last = query_of_row(args, wave_row + wave_rows - 1);
      pass =
          passes_of(keys, keys_seen_by_any(args, first, last), keys_seen_by_all(args, first, last));
    } else {
      pass = passes_of(keys, {0, 0}, {0, 0});
    }
  }

  const int count = keys.end - keys.first;
  Tiles tiles;
  tiles.start(
      args,
      rows_of(args.k, args.k_stride, work.batch, work.kv_head, keys.first, count, kElementBytes),
      rows_of(args.v, args.v_stride, work.batch, work.kv_head, keys.first, count, kElementBytes),
      work.kv_head, keys, shared);

  // Of the lane's row; worked out again at the end, so that they need no registers in between.
  const auto row_of = [&]() HF_LAMBDA { return wave_row + row_of_lane(); };
  const auto query_of = [&]() HF_LAMBDA { return query_of_row(args, row_of()); };
  const auto head_of = [&]() HF_LAMBDA { return head_of_row(args, work.head, row_of()); };
  QueryTile queries_tile;
  if constexpr (Spec::pack_heads) {
    load_row(queries_tile, row_at(args.q, args.q_stride, work.batch, head_of(), query_of()),
             row_of() < rows, head_dim(args));
  } else {
    load(queries_tile,
         rows_of(args.q, args.q_stride, work.batch, work.head, wave_row, wave_rows, kElementBytes),
         head_dim(args));
  }
  ScoreTile scores;
  OutputTile output;
  Softmax softmax;
  clear(output);
  softmax.start();
  ScoreModifier modifier;
  modifier.start(args, work.batch, head_of(), query_of());
  const float scale = exponent_scale(args);
  KeyRange seen = visible_keys(args, query_of());
  if (Spec::split_keys && keys.end < seen.end) seen.end = keys.end;  // may be within a tile
  seen.first -= first_key_of_lane();                                 // as softmax.h counts
  seen.end -= first_key_of_lane();

  KeyFragments key_fragments;
  ValueFragments value_fragments;
  key_fragments.start(tiles.keys);
  value_fragments.start(tiles.values);
  const auto next_stage = [&](int bytes) HF_LAMBDA {
    key_fragments.move(bytes);
    value_fragments.move(bytes);
  };

  // One step over the tile whose first key is `key`.
  auto step = [&](int key, auto masked) HF_LAMBDA {
    constexpr bool kMasked = decltype(masked)::value;
    constexpr int kAhead = Spec::read_ahead;
    const SeenKeys seen_here = {seen.first - key, seen.end - key};
    auto take_scores = [&](int first, int end) HF_LAMBDA {
      softmax.take<kMasked>(
          [&](int f) HF_LAMBDA {
            return modifier.score(args, scores.block[f / kResults][f % kResults],
                                  key + first_key_of_lane(), f, softmax.exponent[f]);
          },
          first, end, scale, seen_here);
    };
    u32x4 fragment[kAhead];

    fence();
    modifier.load(args, key + first_key_of_lane(), softmax.exponent);
    tiles.before_keys([&](int at) {
      return seen_by_any(args, work.batch, work.head, first_row, last_of_block, key + at);
    });
    constexpr int kFirst = KeyFragments::kCount;
    HF_UNROLL for (int j = 0; j < kAhead && j < kFirst; j++) {
      fragment[j] = key_fragments.read(j / kHeadSlabs, j % kHeadSlabs);
    }
    tiles.next_addresses_of_values();
    priority<1>();
    fence();
    HF_UNROLL for (int j = 0; j < kFirst; j++) {
      const int block = j / kHeadSlabs, slab = j % kHeadSlabs;
      Accumulator& score = scores.block[block];
      score = slab == 0 ? mma_first(fragment[j % kAhead], queries_tile.slab[0])
                        : mma(fragment[j % kAhead], queries_tile.slab[slab], score);
      if (j + kAhead < kFirst) {
        fragment[j % kAhead] =
            key_fragments.read((j + kAhead) / kHeadSlabs, (j + kAhead) % kHeadSlabs);
      }
      tiles.beside_keys<kFirst>(j);
      if (block > 0) {  // the scores of the block before
        take_scores((block - 1) * kResults + slab * kResults / kHeadSlabs / 2 * 2,
                    (block - 1) * kResults + (slab + 1) * kResults / kHeadSlabs / 2 * 2);
      }
      fence();
    }
    priority<0>();
    take_scores(kScores - kResults, kScores);
    softmax.rescale(output);
    softmax.exp2(0, kChunk);
    fence();
    tiles.after_keys();

    fence();
    tiles.before_values();
    constexpr int kSecond = ValueFragments::kCount;
    HF_UNROLL for (int j = 0; j < kAhead && j < kSecond; j++) {
      fragment[j] = value_fragments.read(j / kDimBlocks, j % kDimBlocks);
    }
    tiles.next_addresses_of_keys();
    priority<1>();
    fence();
    HF_UNROLL for (int j = 0; j < kSecond; j++) {
      const int slab = j / kDimBlocks, block = j % kDimBlocks;
      Accumulator& sum = output.block[block];
      sum = mma(fragment[j % kAhead], softmax.slab(slab), sum);
      if (j + kAhead < kSecond) {
        fragment[j % kAhead] =
            value_fragments.read((j + kAhead) / kDimBlocks, (j + kAhead) % kDimBlocks);
      }
      if (slab + 1 < kKeySlabs) {  // P of the next slab
        const int from = (slab + 1) * kChunk;
        softmax.exp2(from + block * kChunk / kDimBlocks / 2 * 2,
                     from + (block + 1) * kChunk / kDimBlocks / 2 * 2);
      }
      tiles.beside_values<kSecond>(j);
      fence();
    }
    priority<0>();
    fence();
    next_stage(tiles.after_values());
  };
  // Other waves of the block need this tile.
  auto idle = [&](int key) HF_LAMBDA {
    next_stage(tiles.idle([&](int at) {
      return seen_by_any(args, work.batch, work.head, first_row, last_of_block, key + at);
    }));
  };

  tiles.load_first();
  int i = 0, key = keys.first;
  for (; i < pass.see; i++, key += kKeys) idle(key);
  if constexpr (Spec::window_left) {
    for (; i < pass.full; i++, key += kKeys) step(key, Bool<true>());
  }
  for (; i < pass.masked_again; i++, key += kKeys) step(key, Bool<false>());
  for (; i < pass.idle; i++, key += kKeys) step(key, Bool<true>());
  for (; i < pass.end; i++, key += kKeys) idle(key);
  tiles.end();

  RowResult result = finish(softmax);
  const int row = row_of(), query = query_of(), head = head_of();
  const bool partial = Spec::split_keys && args.splits > 1;
  if (Spec::sinks && !partial) {
    const SinkResult joined = join_sink(args, row < rows ? head : work.head, result.lse);
    result = {result.factor * joined.factor, joined.lse};
  }
  if (Spec::ragged && fault != kNoFault) result = {kNan, kNan};
  const bool exists = row < rows, writes = lane_id() < kRows && exists;
  if constexpr (Spec::split_keys) {
    if (partial) {
      const long long at = partial_row(args, work.split, work.batch, head, query);
      store_partial(output, result.factor, args.partial_out + at * value_dim(args), exists,
                    value_dim(args));
      if (writes) args.partial_lse[at] = result.lse;
      return;
    }
  }
  if constexpr (Spec::pack_heads) {
    char* const to = const_cast<char*>(row_at(args.out, args.out_stride, work.batch, head, query));
    store_row(output, result.factor, to, exists, value_dim(args));
  } else {
    store_rows(output, result.factor,
               rows_of(args.out, args.out_stride, work.batch, work.head, wave_row, wave_rows,
                       kElementBytes),
               value_dim(args));
  }
  if constexpr (Spec::lse) {
    if (args.lse && writes) {
      args.lse[work.batch * args.lse_stride.batch + head * args.lse_stride.head +
               query * args.lse_stride.seq] = result.lse;
    }
  }
}

HF_KERNEL_OF(kThreads, Spec::waves_per_simd)
void attention_forward(const AttentionArgs args) {
  Work work = work_of_block(args, block_id());
  if constexpr (Spec::ragged) {
    int fault;
    const AttentionArgs one = arguments_of_sequence(args, work.batch, fault);
    if (fault != kNoFault && args.fault && thread_id() == 0) *args.fault = fault;
    work.batch = 0;
    const int first_row = first_row_of(one, work);
    if (first_row >= 0) attend(one, work, first_row, fault);
  } else {
    attend(args, work, first_row_of(args, work), kNoFault);
  }
}

// One thread for each element of the output: a grid of cdna::merge_blocks().
HF_KERNEL_OF(cdna::kMergeThreads, 1)
void attention_merge(const AttentionArgs args) {
  merge_element(args, static_cast<long long>(block_id()) * cdna::kMergeThreads + thread_id(),
                value_dim(args));
}

}  // namespace hipflash
