// Attention on mma.sync: f16 and bf16, every feature, sm_80 and everything after it.
//
// A warp owns row_tiles * 16 query rows and walks the keys from right to left, so that the masked
// tiles come first and a loop without any mask follows. The result registers of two 8-key tiles of
// scores are exactly one operand fragment of P, so P never leaves the registers.
#include "gpu/tile/nv/cuda.h"

#include "common/mask.h"
#include "common/partials.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/nv/accumulator_rows.h"
#include "gpu/tile/nv/schedule.h"

#include "gpu/tile/nv/ragged.h"

#include "gpu/tile/nv/merge.h"
#include "gpu/tile/nv/mma_sm80.h"

namespace hipflash {

constexpr int kHeadDim = round_up(Spec::head_dim ? Spec::head_dim : nv_max_head_dim(), 16);
constexpr int kValueDim =
    nv_value_chunk(Spec::value_head_dim ? Spec::value_head_dim : nv_max_head_dim());
constexpr int kKeys = Spec::tile_keys;
constexpr int kRowTiles = Spec::row_tiles;
constexpr int kThreads = Spec::waves * 32;  // of one part of the keys
constexpr int kRows = Spec::waves * kRowTiles * 16;
constexpr int kStages = Spec::stages;
static_assert(kStages <= 3, "the table of places in pages has two steps");
constexpr int kQBytes = kRows * kHeadDim * 2, kKBytes = kKeys * kHeadDim * 2,
              kVBytes = kKeys * kValueDim * 2;

using QReader = FragmentReader<kHeadDim>;
using KReader = FragmentReader<kHeadDim>;
using VReader = FragmentReader<kValueDim>;

// What one warp accumulates.
struct WarpTile {
  float out[kRowTiles][kValueDim / 2];
  SoftmaxRows softmax[kRowTiles];
};

}  // namespace hipflash

#include "gpu/tile/nv/parts.h"
#include "gpu/tile/nv/products_sm80.h"

namespace hipflash {

// The query of a row of packed heads.
HF_DEVICE int query_of_row(const AttentionArgs& args, int row, int group) {
  return args.seq_q == 1 ? 0 : (int)((unsigned)row / (unsigned)group);
}

// O / sum, and the log-sum-exp.
HF_DEVICE void store_result(const AttentionArgs& args, const Work& work, const WarpTile& warp,
                            int fault) {
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);
  const int group = args.heads_q / args.heads_kv;
  const int rows = Spec::pack_heads ? args.seq_q * group : args.seq_q;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    float factor[2];
    char* out_row[2];
    float* part_row[2];
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int row =
          work.row + threadIdx.x / 32 * kRowTiles * 16 + 16 * i + 8 * h + (threadIdx.x & 31) / 4;
      const int query = Spec::pack_heads ? query_of_row(args, row, group) : row;
      const int head = Spec::pack_heads ? work.head + row - query * group : work.head;
      const bool exists = row < rows;
      const RowResult result = finish_row(args, exists ? head : 0, warp.softmax[i].reference[h],
                                          quad_sum(warp.softmax[i].sum[h]), fault);
      const float lse = result.lse;
      factor[h] = result.factor;
      out_row[h] = nullptr;
      part_row[h] = nullptr;
      const bool writes_lse = exists && (threadIdx.x & 3) == 0 && work.chunk == 0;
      if (Spec::split_keys && args.splits > 1) {
        const long long at = partial_row(args, work.split, work.batch, head, query);
        if (exists) part_row[h] = args.partial_out + at * value_dim + work.chunk * kValueDim;
        if (writes_lse) args.partial_lse[at] = lse;
      } else {
        if (exists) {
          out_row[h] = (char*)args.out +
                       2 * (work.batch * args.out_stride.batch + head * args.out_stride.head +
                            query * args.out_stride.seq + work.chunk * kValueDim);
        }
        if (Spec::lse && writes_lse && args.lse) {
          args.lse[work.batch * args.lse_stride.batch + head * args.lse_stride.head +
                   query * args.lse_stride.seq] = lse;
        }
      }
    }
    if (Spec::split_keys && args.splits > 1) {
      store_rows_f32(warp.out[i], factor, part_row, value_columns);
    } else if constexpr (Spec::aligned) {
      store_rows_aligned(warp.out[i], factor, out_row, value_columns);
    } else {
      store_rows_unaligned(warp.out[i], factor, out_row, value_columns);
    }
  }
}

// The work of a block. `args` are those of the launch, or of one sequence of a ragged one, whose
// number is `sequence`.
HF_DEVICE void attend(const AttentionArgs& launch, const AttentionArgs& args, const Work& work,
                      int sequence, int fault) {
  HF_SHARED_BYTES(shared);
  const unsigned q_tile = shared_address(shared) + (kParts > 1 ? threadIdx.y * kPartBytes : 0),
                 k_tiles = q_tile + kQBytes, v_tiles = k_tiles + kStages * kKBytes;
  const int lane = threadIdx.x & 31, warp_index = threadIdx.x / 32;
  const int head_dim = Spec::head_dim ? Spec::head_dim : args.head_dim;
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;

  // Which rows: of one query head, or of all heads that share the keys.
  const int group = args.heads_q / args.heads_kv;
  const int rows = Spec::pack_heads ? args.seq_q * group : args.seq_q;
  const auto query_of = [&](int row) {
    return Spec::pack_heads ? query_of_row(args, row, group) : row;
  };
  const auto head_of = [&](int row) {
    return Spec::pack_heads ? work.head + row - query_of(row) * group : work.head;
  };

  // What only the epilogue needs waits in shared memory: registers are what this kernel is short
  // of.
  const unsigned kept = v_tiles + kStages * kVBytes;
  if (threadIdx.x == 0) {
    Work epilogue = work;
    if (Spec::ragged) epilogue.batch = sequence;
    keep_work(kept, epilogue);
    if (Spec::ragged) keep_sequence(kept, args);
  }
  const auto mask_args = [&] {
    if constexpr (Spec::ragged) {
      return kept_sequence(kept, args);
    } else {
      return args;
    }
  };

  // Which keys: those that some row sees, or this split's share of them.
  const int last_row = min(work.row + kRows, rows) - 1;
  const KeyRange block_keys = keys_seen_by_any(args, query_of(work.row), query_of(last_row));
  Steps steps = steps_of(args, query_of(work.row), query_of(last_row), kKeys);
  if constexpr (Spec::split_keys) take_share(steps, args, work.split, kKeys);
  if constexpr (kParts > 1) steps = steps_of_part(steps, threadIdx.y, kParts);
  // Which step of the block a step is. Parts take turns, so that they read keys that are near one
  // another.
  const auto of_block = [&](int step) {
    return kParts > 1 ? step * kParts + (int)threadIdx.y : step;
  };
  const int warp_row = work.row + warp_index * kRowTiles * 16;

  // Where they are.
  const char* q = (const char*)args.q + 2 * (work.batch * args.q_stride.batch);
  const char* k = (const char*)args.k +
                  2 * (work.batch * args.k_stride.batch + work.kv_head * args.k_stride.head);
  const char* v =
      (const char*)args.v + 2 * (work.batch * args.v_stride.batch +
                                 work.kv_head * args.v_stride.head + work.chunk * kValueDim);
  const long long k_step = 2 * args.k_stride.seq, v_step = 2 * args.v_stride.seq;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);

  // Keys and values that no row of the block sees are zeros, whatever is in memory.
  PagedKeys<kKeys, kThreads> places;
  places.table = kept + 32;
  const auto fetch_places = [&](int step) {
    if constexpr (Spec::paged)
      places.fetch(args, of_block(step) * kKeys, block_keys.first, block_keys.end);
  };
  const auto publish_places = [&](int step) {
    if constexpr (Spec::paged) places.publish(args, step, of_block(step) * kKeys, k, v);
  };
  const auto load_keys = [&](int step, int stage, auto masked) {
    if constexpr (Spec::paged) {
      load_rows<kKeys, kHeadDim, kThreads, kOnce>(
          k_tiles + stage * kKBytes, k, [&](int row) { return places.key(step, row); },
          block_keys.first - of_block(step) * kKeys, block_keys.end - of_block(step) * kKeys,
          head_dim);
      return;
    }
    load_tile<kKeys, kHeadDim, kThreads, !decltype(masked)::value, kOnce>(
        k_tiles + stage * kKBytes, k + (long long)of_block(step) * kKeys * k_step, k_step,
        block_keys.first - of_block(step) * kKeys, block_keys.end - of_block(step) * kKeys,
        head_dim);
  };
  const auto load_values = [&](int step, int stage, auto masked) {
    if constexpr (Spec::paged) {
      load_rows<kKeys, kValueDim, kThreads, kOnce>(
          v_tiles + stage * kVBytes, v, [&](int row) { return places.value(step, row); },
          block_keys.first - of_block(step) * kKeys, block_keys.end - of_block(step) * kKeys,
          value_columns);
      return;
    }
    load_tile<kKeys, kValueDim, kThreads, !decltype(masked)::value, kOnce>(
        v_tiles + stage * kVBytes, v + (long long)of_block(step) * kKeys * v_step, v_step,
        block_keys.first - of_block(step) * kKeys, block_keys.end - of_block(step) * kKeys,
        value_columns);
  };
  // Only the last tile reaches beyond the keys in sight, or with a left edge the first:
  // `may_be_last`.
  const auto load_step = [&](int step, auto may_be_last, auto load) {
    if constexpr (Spec::paged) {  // where edges cost nothing beside the places
      load(step, Constant<true>());
      return;
    }
    if constexpr (decltype(may_be_last)::value || Spec::window_left) {
      if ((of_block(step) + 1) * kKeys > block_keys.end ||
          (Spec::window_left && of_block(step) * kKeys < block_keys.first)) {
        load(step, Constant<true>());
        return;
      }
    }
    load(step, Constant<false>());
  };

  const auto load_queries = [&] {
    if constexpr (Spec::pack_heads) {  // neighbours belong to other heads
      load_rows<kRows, kHeadDim, kThreads>(
          q_tile, q,
          [&](int row) {
            const int x = work.row + row;
            return query_of(x) * args.q_stride.seq + head_of(x) * args.q_stride.head;
          },
          0, rows - work.row, head_dim);
    } else {
      q += 2 * (work.head * args.q_stride.head + work.row * args.q_stride.seq);
      load_tile<kRows, kHeadDim, kThreads, false>(q_tile, q, 2 * args.q_stride.seq, 0,
                                                  rows - work.row, head_dim);
    }
  };
  if constexpr (!Spec::pack_heads) load_queries();

  Queries queries;
  queries.tile = q_tile;
  queries.reader = rows_first_reader<kHeadDim>(warp_index * kRowTiles * 16);
  const KReader k_reader = columns_first_reader<kHeadDim>();
  const VReader first_v_reader = rows_first_reader<kValueDim>(0);

  const auto lane_rows = [&](int i) {
    LaneRows of_lane;
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int row = warp_row + 16 * i + 8 * h + lane / 4;
      of_lane.query[h] = query_of(row);
      of_lane.head[h] = min(head_of(row), args.heads_q - 1);
    }
    return of_lane;
  };
  WarpTile warp;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    warp.softmax[i].clear();
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) warp.out[i][n] = 0.0f;
  }
  const float scale = exponent_scale(args);

  // The first copies. With one stage, K and V take turns; else both of a step go together.
  if constexpr (Spec::paged) {  // of both steps that the table has room for, in one wait
    PagedKeys<kKeys, kThreads> second = places;
    fetch_places(steps.end - 1);
    second.fetch(args, of_block(steps.end - 2) * kKeys, block_keys.first, block_keys.end);
    publish_places(steps.end - 1);
    second.publish(args, steps.end - 2, of_block(steps.end - 2) * kKeys, k, v);
    part_barrier();
    fetch_places(steps.end - 3);
  }
  if constexpr (kStages == 1) {
    if (steps.end > steps.begin) {
      load_step(steps.end - 1, Constant<true>(),
                [&](int step, auto masked) { load_keys(step, 0, masked); });
    }
    if constexpr (Spec::pack_heads) load_queries();
    copies_issued();
  } else {
#pragma unroll 1
    for (int i = 0; i < kStages - 1; i++) {
      if (steps.end - 1 - i >= steps.begin) {
        load_step(steps.end - 1 - i, Constant<true>(), [&](int step, auto masked) {
          load_keys(step, i, masked);
          load_values(step, i, masked);
        });
      }
      if (Spec::pack_heads && i == 0) load_queries();  // keys take longer
      copies_issued();
    }
    if constexpr (Spec::paged && kStages == 3) {
      part_barrier();  // all are through with the first
      publish_places(steps.end - 3);
      fetch_places(steps.end - 4);
    }
  }

  int stage = 0;
  const auto do_step = [&](int step, auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    wait_copies<kStages == 1 ? 0 : kStages - 2>();
    part_barrier();
    if (Spec::q_in_registers && step == steps.end - 1) queries.hold();
    if constexpr (kStages == 1) {
      load_step(step, masked, [&](int x, auto edge) { load_values(x, 0, edge); });
      copies_issued();
      if (step < steps.end - 1) publish_places(step - 1);
      fetch_places(step - 2);
    } else {
      const int ahead = step - (kStages - 1), next_stage = stage == 0 ? kStages - 1 : stage - 1;
      if (ahead >= steps.begin) {
        load_step(ahead, Constant<false>(), [&](int x, auto edge) {
          load_keys(x, next_stage, edge);
          load_values(x, next_stage, edge);
        });
        publish_places(ahead - 1);
        fetch_places(ahead - 2);
      }
      copies_issued();
    }
    bool needed = true;
    if constexpr (kMasked) {  // some rows of the block may have no key here
      const KeyRange warp_keys = keys_seen_by_any(
          mask_args(), query_of(warp_row), query_of(min(warp_row + kRowTiles * 16, rows) - 1));
      needed =
          of_block(step) * kKeys < warp_keys.end && (of_block(step) + 1) * kKeys > warp_keys.first;
    }

    float s[kRowTiles][kKeys / 2];
    unsigned seen = ~0u;
    if (needed) {
      multiply_keys(s, queries, k_reader, k_tiles + stage * kKBytes);
      if constexpr (kMasked || kScoreModified) {
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          modify_scores<kMasked>(mask_args(), s[i], lane_rows(i), work.batch,
                                 of_block(step) * kKeys + 2 * (lane & 3));
        }
      }
      if constexpr (kElementwise) seen = keys_in_sight(s);
      update_references(warp.out, warp.softmax, s, scale);
    }
    if constexpr (kStages == 1) {  // all warps are through with K, and V has arrived
      wait_copies<0>();
      part_barrier();
      if (step > steps.begin)
        load_step(step - 1, Constant<false>(), [&](int x, auto edge) { load_keys(x, 0, edge); });
      copies_issued();
    }
    VReader v_reader = first_v_reader;
    if constexpr (kRowTiles == 2 && kValueDim >= 128 && kKeys >= 64) {
      // Made anew in each step: kept over the loop, its addresses are the registers that these
      // widths do not have.
      v_reader = rows_first_reader<kValueDim>(0);
    }
    if (needed) {
      HF_UNROLL
      for (int block = 0; block < kKeys / 16; block++) {
        unsigned p[kRowTiles][4];
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++)
          exponentials<kMasked>(p[i], s[i], block, warp.softmax[i], scale);
        unsigned keep[2] = {~0u, ~0u};
        if constexpr (kElementwise) {
          HF_UNROLL
          for (int e = 0; e < 2; e++) {
            const unsigned bits = seen >> (4 * block + 2 * e);
            keep[e] = (bits & 1 ? 0xffffu : 0u) | (bits & 2 ? 0xffff0000u : 0u);
          }
        }
        multiply_values(warp, p, v_reader, v_tiles + stage * kVBytes, block, keep);
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  };

  int step = steps.end - 1;
#pragma unroll 1
  for (; step >= steps.begin && step >= steps.unmasked_end; step--) do_step(step, Constant<true>());
  if constexpr (!kElementwise) {
#pragma unroll 1
    for (; step >= steps.begin && step >= steps.unmasked_begin; step--)
      do_step(step, Constant<false>());
  }
  if constexpr (Spec::window_left) {
#pragma unroll 1
    for (; step >= steps.begin; step--) do_step(step, Constant<true>());
  }
  wait_copies<0>();
  part_barrier();
  if constexpr (kParts > 1) {
    if (!join_parts(warp, fault)) return;
  }
  if constexpr (Spec::pack_heads) {  // few rows leave registers for what this needs
    if (Spec::ragged && fault != kNoFault && launch.fault) *launch.fault = fault;
    store_result(args, work, warp, fault);
  } else {
    finish_work(launch, args, kept, [&](const AttentionArgs& of, const Work& done, int found) {
      store_result(of, done, warp, found);
    });
  }
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads* kParts, Spec::blocks_per_sm)
    attention_forward(const __grid_constant__ AttentionArgs args) {
  const int chunks =
      nv_value_chunks(Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim);
  if constexpr (Spec::split_keys) launch_next();
  const int group = args.heads_q / args.heads_kv;
  if constexpr (Spec::ragged) {
    Work work = ragged_work_of<kRows, Spec::pack_heads>(args, blockIdx.x, chunks);
    const int sequence = work.batch;
    int fault;
    const AttentionArgs one = arguments_of_sequence(args, sequence, fault);
    if (fault == kOffsetsFault && args.fault) *args.fault = fault;
    work.batch = 0;
    if (work.row < (Spec::pack_heads ? one.seq_q * group : one.seq_q)) {
      attend(args, one, work, sequence, fault);
    }
  } else if constexpr (Spec::pack_heads) {
    attend(args, args, packed_work_of(args, kRows, blockIdx.x, chunks), 0, kNoFault);
  } else {
    const int tiles = ceil_div(args.seq_q, kRows);
    const int together =
        nv_heads_together(args, group, tiles, pieces_together(tiles, Spec::blocks_per_sm), 2);
    attend(args, args, work_of<kRows>(args, blockIdx.x, together, chunks), 0, kNoFault);
  }
}
