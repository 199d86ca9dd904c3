// Attention forward for CDNA, and for the host under sanitizers.
//
//   S^T = K Q^T,   P^T = exp2(S^T * scale - reference),   O^T = V^T P^T
//
// A wave owns kRows queries, one per lane of a group, so the softmax state is a scalar per lane,
// and the results of the first product are the operand of the second: P never leaves its registers.
//
// A block passes over its tiles of kKeys keys. Shared memory holds one tile of K and one of V. A
// step has two phases, each ended by a barrier: in the first, K is read while the next V goes from
// registers to shared memory; in the second, V is read while the next K does. Registers are filled
// from global memory as soon as they are free, so loads have a whole step to arrive. Both phases
// run in steps of one fragment, each with a slice of the side work, in exactly the written order.
//
// Tile config: waves, mma_rows, tile_keys, waves_per_simd, read_ahead (tiles_cdna.h); dies, the
// number of dies with an L2 of their own (a power of two); largest_head_dim, what a general config is built for.
#if defined(__AMDGCN__)
#include "gpu/tile/amd.h"
#else
#include "gpu/tile/host.h"
#endif
#include "common/mask.h"
#include "common/score.h"
#include "gpu/tile/types.h"
#if defined(__AMDGCN__)
#include "gpu/tile/mfma.h"
#else
#include "gpu/tile/host_mma.h"
#endif
#include "gpu/tile/elementwise.h"
#include "gpu/tile/memory.h"
#include "gpu/tile/merge.h"
#include "gpu/tile/softmax.h"

namespace hipflash {

// What a block works on.
struct Work {
  int batch, head, kv_head, first_query, split;
};

// Blocks start round-robin over the dies. Each die gets whole heads, neighbours first, so query
// heads that share K and V share an L2. If heads do not divide by the dies, groups of dies share
// them. Later query tiles come first: under a causal mask they are the heaviest.
HF_DEVICE Work work_of_block(const AttentionArgs& args, int block) {
  const int heads = args.batch * args.heads_q;
  int dies = Spec::dies;
  while (heads % dies) dies /= 2;
  const int heads_of_die = heads / dies, slot = block / dies;
  const int index = block % dies * heads_of_die + slot % heads_of_die;
  const int part = slot / heads_of_die;
  const int tiles = (args.seq_q + kBlockQueries - 1) / kBlockQueries;
  Work work;
  work.batch = index / args.heads_q;
  work.head = index % args.heads_q;
  work.kv_head = work.head / (args.heads_q / args.heads_kv);
  work.split = Spec::split_keys ? part % args.splits : 0;
  const int tile = Spec::split_keys ? part / args.splits : part;
  work.first_query = (Spec::window_right ? tiles - 1 - tile : tile) * kBlockQueries;
  return work;
}

// The part of a block's keys that its split has: whole tiles.
HF_DEVICE KeyRange keys_of_split(const AttentionArgs& args, KeyRange keys, int split) {
  if constexpr (!Spec::split_keys) return keys;
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

// Where in a phase of `steps` steps piece i of `count` is done: evenly in [first, end).
constexpr int step_of(int i, int count, int first, int end, int steps) {
  const int at = first + i * (end - first) / count;
  return at < steps ? at : steps - 1;
}

HF_KERNEL_OF(kThreads, Spec::waves_per_simd)
void attention_forward(const AttentionArgs args) {
  constexpr int kKeyShared = cdna::key_bytes(kTile, kHeadDim, kElementBytes);
  HF_SHARED(shared, kKeyShared + cdna::value_bytes(kTile, kValueDim, kElementBytes));
  char* const shared_keys = shared;
  char* const shared_values = shared + kKeyShared;

  const Work work = work_of_block(args, block_id());
  const int query = work.first_query + wave_id() * kRows;  // first one of the wave
  const int queries = args.seq_q - query < kRows ? args.seq_q - query : kRows;
  const int last_of_block = work.first_query + kBlockQueries < args.seq_q
                                ? work.first_query + kBlockQueries - 1
                                : args.seq_q - 1;
  const KeyRange keys =
      keys_of_split(args, keys_seen_by_any(args, work.first_query, last_of_block), work.split);
  // (how this is written decides whether the compiler keeps the hot loops apart and free of moves)
  Passes pass = {};
  {
    const int last = query + queries - 1;
    if (queries > 0) {
      pass =
          passes_of(keys, keys_seen_by_any(args, query, last), keys_seen_by_all(args, query, last));
    } else {
      pass = passes_of(keys, {0, 0}, {0, 0});
    }
  }

  const int count = keys.end - keys.first;
  KeyLoader next_keys;
  ValueLoader next_values;
  next_keys.start(
      rows_of(args.k, args.k_stride, work.batch, work.kv_head, keys.first, count, kElementBytes),
      head_dim(args));
  next_values.start(
      rows_of(args.v, args.v_stride, work.batch, work.kv_head, keys.first, count, kElementBytes),
      value_dim(args));

  QueryTile queries_tile;
  load(queries_tile,
       rows_of(args.q, args.q_stride, work.batch, work.head, query, queries, kElementBytes),
       head_dim(args));
  ScoreTile scores;
  OutputTile output;
  Softmax softmax;
  clear(output);
  softmax.start();
  ScoreModifier modifier;
  modifier.start(args, work.batch, work.head, query + query_of_lane());
  const float scale = exponent_scale(args);
  const KeyRange seen = visible_keys(args, query + query_of_lane());

  KeyFragments key_fragments;
  ValueFragments value_fragments;
  key_fragments.start(shared_keys);
  value_fragments.start(shared_values);

  // One step over the tile whose first key is `key`.
  auto step = [&](int key, auto masked) HF_LAMBDA {
    constexpr bool kMasked = decltype(masked)::value;
    constexpr int kAhead = Spec::read_ahead;
    const SeenKeys seen_here = {seen.first - key - first_key_of_lane(),
                                seen.end - key - first_key_of_lane()};
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
    const auto seen_at = [&](int at) {
      return seen_by_any(args, work.batch, work.head, work.first_query, last_of_block, key + at);
    };
    next_values.drop_unseen(seen_at);
    next_values.copy(shared_values, seen_at);
    constexpr int kFirst = KeyFragments::kCount;
    HF_UNROLL for (int j = 0; j < kAhead && j < kFirst; j++) {
      fragment[j] = key_fragments.read(j / kHeadSlabs, j % kHeadSlabs);
    }
    next_values.next();
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
      HF_UNROLL for (int i = 0; i < ValueLoader::kDims; i++) {
        if (step_of(i, ValueLoader::kDims, 1, kFirst / 2 + 1, kFirst) == j) {
          next_values.store(shared_values, i);
        }
      }
      HF_UNROLL for (int e = 0; e < 4; e++) {
        if (step_of(e, 4, kFirst / 2 + 1, kFirst, kFirst) == j) next_values.load(e);
      }
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
    barrier();

    fence();
    next_keys.copy(shared_keys);
    constexpr int kSecond = ValueFragments::kCount;
    HF_UNROLL for (int j = 0; j < kAhead && j < kSecond; j++) {
      fragment[j] = value_fragments.read(j / kDimBlocks, j % kDimBlocks);
    }
    next_keys.next();
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
      HF_UNROLL for (int i = 0; i < KeyLoader::kPieces; i++) {
        if (step_of(i, KeyLoader::kPieces, 1, kSecond / 2 + 1, kSecond) == j) {
          next_keys.store(shared_keys, i);
        }
      }
      HF_UNROLL for (int i = 0; i < KeyLoader::kPieces; i++) {
        if (step_of(i, KeyLoader::kPieces, kSecond / 2 + 1, kSecond, kSecond) == j) {
          next_keys.load(i);
        }
      }
      fence();
    }
    priority<0>();
    fence();
    barrier();
  };
  // Other waves of the block need this tile.
  auto idle = [&](int key) HF_LAMBDA {
    next_values.store_all(shared_values, [&](int at) {
      return seen_by_any(args, work.batch, work.head, work.first_query, last_of_block, key + at);
    });
    next_values.load_all();
    barrier();
    next_keys.store_all(shared_keys);
    next_keys.load_all();
    barrier();
  };

  next_keys.load_all();
  next_values.load_all();
  next_keys.store_all(shared_keys);
  next_keys.load_all();
  barrier();
  int i = 0, key = keys.first;
  for (; i < pass.see; i++, key += kKeys) idle(key);
  if constexpr (Spec::window_left) {
    for (; i < pass.full; i++, key += kKeys) step(key, Bool<true>());
  }
  for (; i < pass.masked_again; i++, key += kKeys) step(key, Bool<false>());
  for (; i < pass.idle; i++, key += kKeys) step(key, Bool<true>());
  for (; i < pass.end; i++, key += kKeys) idle(key);

  const RowResult result = finish(softmax);
  const int row = query + query_of_lane();
  const bool writes = lane_id() < kRows && row < args.seq_q;
  if constexpr (Spec::split_keys) {
    if (args.splits > 1) {
      const long long at =
          ((static_cast<long long>(work.split) * args.batch + work.batch) * args.heads_q +
           work.head) *
              args.seq_q +
          query;
      store_partial(output, result.factor, args.partial_out + at * value_dim(args), queries,
                    value_dim(args));
      if (writes) args.partial_lse[at + query_of_lane()] = result.lse;
      return;
    }
  }
  store_rows(
      output, result.factor,
      rows_of(args.out, args.out_stride, work.batch, work.head, query, queries, kElementBytes),
      value_dim(args));
  if constexpr (Spec::lse) {
    if (args.lse && writes) {
      args.lse[work.batch * args.lse_stride.batch + work.head * args.lse_stride.head +
               row * args.lse_stride.seq] = result.lse;
    }
  }
}

// One thread for each element of the output: a grid of cdna::merge_blocks().
HF_KERNEL_OF(cdna::kMergeThreads, 1)
void attention_merge(const AttentionArgs args) {
  const int dim = value_dim(args);
  const long long rows = static_cast<long long>(args.batch) * args.heads_q * args.seq_q;
  const long long index = static_cast<long long>(block_id()) * cdna::kMergeThreads + thread_id();
  if (index >= rows * dim) return;
  const long long row = index / dim;
  const int d = static_cast<int>(index % dim);
  const int query = static_cast<int>(row % args.seq_q);
  const int head = static_cast<int>(row / args.seq_q % args.heads_q);
  const int batch = static_cast<int>(row / args.seq_q / args.heads_q);
  float lse;
  const float x = merged_element(args, row, rows, dim, d, &lse);
  store_element(
      args.out,
      batch * args.out_stride.batch + head * args.out_stride.head + query * args.out_stride.seq + d,
      x);
  if (Spec::lse && args.lse && d == 0) {
    args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
             query * args.lse_stride.seq] = lse;
  }
}

}  // namespace hipflash
