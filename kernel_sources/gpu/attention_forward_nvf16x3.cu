// Attention in f32 on the f16 matrix units of NVIDIA GPUs: three products of f16 for each product
// of f32, see tile/nv/pairs_f16.h.
//
// A warp owns row_tiles * 16 query rows and walks the keys from right to left, so that the masked
// tiles come first and a loop without any mask follows. The result registers of scores are operand
// fragments of P, so P never leaves the registers. Keys and values come as f32; each thread splits
// what it has copied before the barrier that hands the tile to all.
//
// Infinities and NaN come out of the parts as NaN. A block that ends with anything not finite does
// its work again by multiply-adds, so that they mean what they mean in f32.
#include "gpu/tile/nv/cuda.h"

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/nv/accumulator_rows.h"

namespace hipflash {

constexpr int kRowTiles = Spec::row_tiles;
constexpr int kHeadDim = round_up(Spec::head_dim ? Spec::head_dim : nv_max_head_dim(), 16);
constexpr int kValueDim =
    nvf16x3_value_chunk(kRowTiles, Spec::value_head_dim ? Spec::value_head_dim : nv_max_head_dim());
constexpr int kKeys = Spec::tile_keys;
constexpr int kThreads = Spec::waves * 32;
constexpr int kRows = Spec::waves * kRowTiles * 16;
constexpr int kStages = Spec::stages;

}  // namespace hipflash

#include "gpu/tile/nv/pairs_f16.h"

#include "gpu/tile/nv/ragged.h"

#include "gpu/tile/nv/merge.h"

namespace hipflash {

using QTile = PairTile<kRows, kHeadDim>;
using KTile = PairTile<kKeys, kHeadDim>;
using VTile = PairTile<kKeys, kValueDim>;

// Shared memory, in bytes from its start. K and V and their factors have kStages buffers each.
struct Places {
  static constexpr int q = 0;
  static constexpr int k = q + QTile::kBytes;
  static constexpr int v = k + kStages * KTile::kBytes;
  static constexpr int q_factors = v + kStages * VTile::kBytes;
  static constexpr int k_factors = q_factors + 4 * kRows;
  static constexpr int v_factors = k_factors + kStages * 4 * kKeys;
  static constexpr int softmax = v_factors + kStages * 4 * kKeys;   // of each thread's rows
  static constexpr int kept = softmax + kThreads * 16 * kRowTiles;  // what only the epilogue needs
};

}  // namespace hipflash

#include "gpu/tile/nv/products_f16x3.h"

namespace hipflash {

// P = exp2(S * scale - reference), in place; adds to the sums.
template <bool kMasked>
HF_DEVICE void exponentials(float (&s)[kKeys / 2], SoftmaxRows& rows, float scale) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const float reference = finite_reference<kMasked>(rows.reference[h]);
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      float& x = s[4 * n + 2 * h];
      float& y = s[4 * n + 2 * h + 1];
      x = exp2_fast(fmaf(x, scale, -reference));
      y = exp2_fast(fmaf(y, scale, -reference));
      rows.sum[h] += x + y;
    }
  }
}

// The softmax state of this thread's rows, which only a part of each step needs.
HF_DEVICE unsigned softmax_place(unsigned shared, int tile) {
  return shared + Places::softmax + 16 * (tile * kThreads + fresh_thread());
}
HF_DEVICE SoftmaxRows load_softmax(unsigned from) {
  const float4 x = load_piece(from);
  return {{x.x, x.y}, {x.z, x.w}};
}
HF_DEVICE void store_softmax(unsigned to, const SoftmaxRows& rows) {
  store_words(to, rows.reference[0], rows.reference[1], rows.sum[0], rows.sum[1]);
}

// True if anything of this lane is infinite or NaN.
HF_DEVICE bool has_nonfinite(const OutTile& out) {
  float zero = 0.0f;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) zero = fmaf(out[i][n], 0.0f, zero);
  }
  return !(zero == 0.0f);
}

// O / sum, and the log-sum-exp.
HF_DEVICE void store_result(const AttentionArgs& args, const Work& work, const OutTile& out,
                            unsigned shared, int fault) {
  constexpr bool kPairs = Spec::value_head_dim != 0 && Spec::value_head_dim % 2 == 0;
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);
  const int lane = threadIdx.x & 31;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    const SoftmaxRows softmax = load_softmax(softmax_place(shared, i));
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int query = work.row + (threadIdx.x / 32 * kRowTiles + i) * 16 + 8 * h + lane / 4;
      const RowResult result =
          finish_row(args, work.head, softmax.reference[h], quad_sum(softmax.sum[h]), fault);
      if (query >= args.seq_q) continue;
      const ResultRow to = result_row<kValueDim>(args, work, query, value_dim);
      if (Spec::lse || Spec::split_keys) {
        if (to.lse && lane % 4 == 0 && work.chunk == 0) *to.lse = result.lse;
      }
      HF_UNROLL
      for (int n = 0; n < kValueDim / 8; n++) {
        const int column = 8 * n + lane % 4 * 2;
        const float2 o = make_float2(out[i][4 * n + 2 * h] * result.factor,
                                     out[i][4 * n + 2 * h + 1] * result.factor);
        if (kPairs && to.whole_pieces) {
          if (column < value_columns) *(float2*)(to.values + column) = o;
        } else {
          if (column < value_columns) to.values[column] = o.x;
          if (column + 1 < value_columns) to.values[column + 1] = o.y;
        }
      }
    }
  }
}

// The work of a block. `args` are those of the launch, or of one sequence of a ragged one, whose
// number is `sequence`. False if the result has anything not finite and was not stored.
template <bool kExact>
HF_DEVICE bool attend(const AttentionArgs& launch, const AttentionArgs& args, const Work& work,
                      int sequence) {
  HF_SHARED_BYTES(memory);
  const unsigned shared = shared_address(memory), kept = shared + Places::kept;
  const int head_dim = Spec::head_dim ? Spec::head_dim : args.head_dim;
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  // What only the epilogue needs waits in shared memory: registers are what this kernel is short
  // of.
  if (threadIdx.x == 0) {
    Work epilogue = work;
    if (Spec::ragged) epilogue.batch = sequence;
    keep_work(kept, epilogue);
    if (Spec::ragged) keep_sequence(kept, args);
  }
  barrier();
  const auto piece = [&] {
    Work w = kept_work(kept);
    if (Spec::ragged) w.batch = 0;  // `args` are those of the sequence
    return w;
  };
  const auto mask_args = [&] {
    if constexpr (Spec::ragged) {
      return kept_sequence(kept, args);
    } else {
      return args;
    }
  };
  Steps steps = steps_of(args, work.row, min(work.row + kRows, args.seq_q) - 1, kKeys);
  if constexpr (Spec::split_keys) take_share(steps, args, work.split, kKeys);
  const auto warp_rows = [] { return fresh_thread() / 32 * kRowTiles * 16; };  // the first of it

  // Keys and values that no row of the block sees are zeros, whatever is in memory.
  const auto load_step = [&](auto tile, unsigned to, const float* from, const RowStrides& stride,
                             int step, int columns) {
    using Tile = decltype(tile);
    const Work w = piece();
    const KeyRange keys =
        keys_seen_by_any(mask_args(), w.row, min(w.row + kRows, mask_args().seq_q) - 1);
    const int at = step * kKeys;
    from += w.kv_head * stride.head;
    if constexpr (Spec::paged) {
      Tile::template copy<false>(
          to, from, [&](int row) { return row_of_key(args, from, stride, at + row); },
          keys.first - at, keys.end - at, columns);
      return;
    }
    const auto distance = [&](int row) { return row * stride.seq; };
    from += w.batch * stride.batch + at * stride.seq;
    if (Spec::aligned && columns == Tile::kColumns && at >= keys.first && at + kKeys <= keys.end) {
      Tile::template copy<true>(to, from, distance, 0, kKeys, columns);
    } else {
      Tile::template copy<false>(to, from, distance, keys.first - at, keys.end - at, columns);
    }
  };
  const auto k_tile = [&](int stage) { return shared + Places::k + stage * KTile::kBytes; };
  const auto v_tile = [&](int stage) { return shared + Places::v + stage * VTile::kBytes; };
  const auto k_factors = [&](int stage) { return shared + Places::k_factors + stage * 4 * kKeys; };
  const auto v_factors = [&](int stage) { return shared + Places::v_factors + stage * 4 * kKeys; };
  const auto load_keys = [&](int step) {
    load_step(KTile(), k_tile(step % kStages), (const float*)args.k, args.k_stride, step, head_dim);
  };
  const auto load_values = [&](int step) {
    const int first = piece().chunk * kValueDim;
    load_step(VTile(), v_tile(step % kStages), (const float*)args.v + first, args.v_stride, step,
              min(value_dim - first, kValueDim));
  };

  QTile::template copy<false>(
      shared + Places::q,
      (const float*)args.q + work.batch * args.q_stride.batch + work.head * args.q_stride.head +
          work.row * args.q_stride.seq,
      [&](int row) { return row * args.q_stride.seq; }, 0, args.seq_q - work.row, head_dim);
  copies_issued();
  if (steps.end > steps.begin) {
    load_keys(steps.end - 1);
    if constexpr (kStages == 2) load_values(steps.end - 1);
  }
  copies_issued();
  wait_copies<1>();
  if constexpr (!kExact) QTile::split_rows(shared + Places::q, shared + Places::q_factors);

  OutTile out;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    store_softmax(softmax_place(shared, i), {{-kInfinity, -kInfinity}, {0.0f, 0.0f}});
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) out[i][n] = 0.0f;
  }
  const float scale = exponent_scale(args);

  const auto do_step = [&](int step, auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    const int stage = step % kStages;
    wait_copies<0>();
    if constexpr (!kExact) {
      KTile::split_rows(k_tile(stage), k_factors(stage));
      if constexpr (kStages == 2) VTile::split_rows(v_tile(stage), v_factors(stage));
    }
    barrier();  // K is there, and all warps are through with what is loaded now
    if constexpr (kStages == 1) {
      load_values(step);
    } else if (step > steps.begin) {
      load_keys(step - 1);
      load_values(step - 1);
    }
    copies_issued();
    bool needed = true;
    if constexpr (kMasked) {  // some rows of the block may have no key here
      const int row = piece().row + warp_rows();
      const KeyRange warp_keys =
          keys_seen_by_any(mask_args(), row, min(row + kRowTiles * 16, mask_args().seq_q) - 1);
      needed = step * kKeys < warp_keys.end && (step + 1) * kKeys > warp_keys.first;
    }

    // Without a value on every way here they would take registers over the whole loop.
    ScoreTile s = {};
    unsigned seen = ~0u;
    if (needed) {
      const int lane = fresh_thread() % 32, rows = warp_rows();
      const unsigned q_rows = shared + Places::q + rows * QTile::kPitch;
      if constexpr (kExact) {
        multiply_keys_exactly(s, q_rows + lane / 4 * QTile::kPitch,
                              k_tile(stage) + lane % 4 * 2 * KTile::kPitch);
      } else {
        multiply_keys(s, q_rows + rows_first_place<QTile>(lane),
                      k_tile(stage) + columns_first_place<KTile>(lane),
                      shared + Places::q_factors + 4 * (rows + lane / 4),
                      k_factors(stage) + lane % 4 * 8);
      }
      if constexpr (kMasked || kScoreModified) {
        const Work w = piece();
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          const int row = w.row + rows + 16 * i + lane / 4;
          const LaneRows of_lane = {{row, row + 8}, {w.head, w.head}};
          modify_scores<kMasked>(mask_args(), s[i], of_lane, w.batch, step * kKeys + lane % 4 * 2);
        }
      }
      if constexpr (kElementwise) seen = keys_in_sight(s);
      SoftmaxRows softmax[kRowTiles];
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) softmax[i] = load_softmax(softmax_place(shared, i));
      update_references(out, softmax, s, scale);
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        exponentials<kMasked>(s[i], softmax[i], scale);
        store_softmax(softmax_place(shared, i), softmax[i]);
      }
    }
    if constexpr (kStages == 1) {
      wait_copies<0>();
      if constexpr (!kExact) VTile::split_rows(v_tile(stage), v_factors(stage));
      barrier();  // V is there, and all warps are through with K
      if (step > steps.begin) load_keys(step - 1);
      copies_issued();
    }
    if (needed) {
      const int lane = fresh_thread() % 32;
      if constexpr (kExact) {
        multiply_values_exactly(out, s, v_tile(stage) + lane % 4 * 8, seen);
      } else {
        multiply_values(out, s, v_tile(stage) + rows_first_place<VTile>(lane),
                        v_factors(stage) + lane % 4 * 8, seen);
      }
    }
  };
  int step = steps.end - 1;
#pragma unroll 1
  for (; step >= steps.begin && (kExact || step >= steps.unmasked_end); step--)
    do_step(step, Constant<true>());
  if constexpr (!kElementwise && !kExact) {
#pragma unroll 1
    for (; step >= steps.begin && step >= steps.unmasked_begin; step--)
      do_step(step, Constant<false>());
  }
  if constexpr (Spec::window_left && !kExact) {
#pragma unroll 1
    for (; step >= steps.begin; step--) do_step(step, Constant<true>());
  }
  wait_copies<0>();
  // A sum that is not finite has made outputs of NaN.
  if (__syncthreads_or(has_nonfinite(out)) && !kExact) return false;
  finish_work(launch, args, kept, [&](const AttentionArgs& of, const Work& done, int fault) {
    store_result(of, done, out, shared, fault);
  });
  return true;
}

// Finds the work of a block and does it.
template <bool kExact>
HF_DEVICE bool attend_block(const AttentionArgs& args) {
  // Read anew, so that nothing that follows from it is kept from the first try to the second.
  const int block = fresh_block();
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int chunks = nvf16x3_value_chunks(kRowTiles, value_dim);
  if constexpr (Spec::ragged) {
    Work work = ragged_work_of<kRows, false>(args, block, chunks);
    const int sequence = work.batch;
    int fault;
    const AttentionArgs one = arguments_of_sequence(args, sequence, fault);
    if (fault == kOffsetsFault && args.fault) *args.fault = fault;
    work.batch = 0;
    return work.row >= one.seq_q || attend<kExact>(args, one, work, sequence);
  } else {
    // This kernel is bound by arithmetic alone: with rows of different lengths the longest of all
    // heads come first.
    const int tiles = ceil_div(args.seq_q, kRows);
    const int together = Spec::window_right
                             ? args.batch * args.heads_q
                             : nv_heads_together(args, args.heads_q / args.heads_kv, tiles,
                                                 pieces_together(tiles, Spec::blocks_per_sm), 4);
    return attend<kExact>(args, args, work_of<kRows>(args, block, together, chunks), 0);
  }
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads, Spec::blocks_per_sm)
    attention_forward(const __grid_constant__ AttentionArgs args) {
  if constexpr (Spec::split_keys) launch_next();
  if (!attend_block<false>(args)) attend_block<true>(args);
}
