// Attention in f32 on the tf32 matrix units of NVIDIA GPUs: three products of tf32 for each product
// of f32, see tile/mma_tf32.h.
//
// A warp owns row_tiles * 16 query rows. Columns 2t and 2t + 1 of a result are taken for rows t and
// t + 4 of the next operand, so that P stays in registers; V is read by its rows to match.
//
// The units cut sums off where f32 rounds, and thousands of such steps add up. So no sum there is
// longer than a head dimension or a tile of keys; what they give is added in f32.
//
// Infinities and NaN come out as NaN of the parts. A block that ends with anything not finite does
// its work again by multiply-adds, so that they mean what they mean in f32.
#include "gpu/tile/cuda.h"

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/accumulator_rows.h"
#include "gpu/tile/copy_sm80.h"
#include "gpu/tile/mma_tf32.h"
#include "gpu/tile/rows_f32.h"
#include "gpu/tile/schedule_nv.h"

#include "gpu/tile/ragged_nv.h"

#include "gpu/tile/merge_nv.h"

namespace hipflash {

constexpr int kRowTiles = Spec::row_tiles;
constexpr int kHeadDim = round_up(Spec::head_dim ? Spec::head_dim : nv_max_head_dim(), 8);
constexpr int kValueDim = nvtf32_value_chunk(
    kRowTiles, Spec::value_head_dim ? Spec::value_head_dim : nv_max_head_dim());
constexpr int kKeys = Spec::tile_keys;
constexpr int kThreads = Spec::waves * 32, kRows = Spec::waves * kRowTiles * 16;
constexpr int kPieces = kValueDim / 16;
constexpr int kSumKeys = kKeys;
// Pitches in floats: rows that lanes read together start at different banks.
constexpr int kPitch = kHeadDim + 4, kValuePitch = kValueDim + 4;

// What one warp accumulates. Register 8m + 4e + 2h + x of out[i] is row 16i + 8h + lane/4, column
// 16m + 4(lane%4) + 2x + e.
struct WarpTile {
  float out[kRowTiles][kValueDim / 2];
  SoftmaxRows softmax[kRowTiles];
};

// S = Q . K^T. `q` and `k` are what this lane reads for ldmatrix.
HF_DEVICE void multiply_keys(float (&s)[kRowTiles][kKeys / 2], unsigned q, unsigned k) {
  float small[kRowTiles][kKeys / 2];
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] = small[i][n] = 0.0f;
  }
#pragma unroll 2
  for (int c = 0; c < kHeadDim / 8; c++) {
    Parts<4> a[kRowTiles];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      unsigned x[4];
      read_blocks(x, q + 4 * (16 * i * kPitch + 8 * c));
      HF_UNROLL
      for (int e = 0; e < 4; e++) split(__uint_as_float(x[e]), a[i].high[e], a[i].low[e]);
    }
    HF_UNROLL
    for (int first = 0; first < kKeys / 8; first += 4) {
      Parts<2> b[4];
      HF_UNROLL
      for (int n = 0; n < 4; n += 2) {
        if (first + n < kKeys / 8) {
          unsigned x[4];
          read_blocks(x, k + 4 * (8 * (first + n) * kPitch + 8 * c));
          HF_UNROLL
          for (int e = 0; e < 4; e++)
            split(__uint_as_float(x[e]), b[n + e / 2].high[e % 2], b[n + e / 2].low[e % 2]);
        }
      }
      HF_UNROLL
      for (int product = 0; product < kProducts; product++) {
        HF_UNROLL
        for (int n = 0; n < 4 && first + n < kKeys / 8; n++) {
          HF_UNROLL
          for (int i = 0; i < kRowTiles; i++) {
            float(&sum)[kRowTiles][kKeys / 2] = product == 2 ? s : small;
            mma_product(product, &sum[i][4 * (first + n)], a[i], b[n]);
          }
        }
      }
    }
  }
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] += small[i][n];
  }
}

// The same by multiply-adds. `q` is this lane's first row, `k` its first key.
HF_DEVICE void multiply_keys_exactly(float (&s)[kRowTiles][kKeys / 2], unsigned q, unsigned k) {
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] = 0.0f;
  }
#pragma unroll 1
  for (int c = 0; c < kHeadDim; c++) {
    float a[kRowTiles][2];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int h = 0; h < 2; h++) a[i][h] = load_float(q + 4 * ((16 * i + 8 * h) * kPitch + c));
    }
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      HF_UNROLL
      for (int e = 0; e < 2; e++) {
        const float b = load_float(k + 4 * ((8 * n + e) * kPitch + c));
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          HF_UNROLL
          for (int h = 0; h < 2; h++)
            s[i][4 * n + 2 * h + e] = fmaf(a[i][h], b, s[i][4 * n + 2 * h + e]);
        }
      }
    }
  }
}

// O += P . V. `v` is what this lane reads of the first two of the keys that it holds P of; `seen`
// blanks values of keys that no row of the warp sees.
HF_DEVICE void multiply_values(WarpTile& warp, const float (&p)[kRowTiles][kKeys / 2], unsigned v,
                               unsigned seen) {
  constexpr int kBlocks = kSumKeys / 8;
  HF_UNROLL
  for (int first = 0; first < kKeys / 8; first += kBlocks) {
    Parts<4> a[kRowTiles][kBlocks];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int n = 0; n < kBlocks; n++) {
        HF_UNROLL
        for (int e = 0; e < 4; e++) {
          const float x = p[i][4 * (first + n) + 2 * (e % 2) + e / 2];
          split(x, a[i][n].high[e], a[i][n].low[e]);
        }
      }
    }
    HF_UNROLL
    for (int m = 0; m < kPieces; m++) {
      float part[kRowTiles][8];
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        HF_UNROLL
        for (int e = 0; e < 8; e++) part[i][e] = 0.0f;
      }
      HF_UNROLL
      for (int n = 0; n < kBlocks; n++) {
        Parts<2> b[2];
        HF_UNROLL
        for (int x = 0; x < 2; x++) {
          float2 pair = load_pair(v + 4 * ((8 * (first + n) + x) * kValuePitch + 16 * m));
          if constexpr (kElementwise) {
            if (!(seen >> (2 * (first + n) + x) & 1)) pair = make_float2(0.0f, 0.0f);
          }
          split(pair.x, b[0].high[x], b[0].low[x]);
          split(pair.y, b[1].high[x], b[1].low[x]);
        }
        HF_UNROLL
        for (int product = 0; product < kProducts; product++) {
          HF_UNROLL
          for (int e = 0; e < 2; e++) {
            HF_UNROLL
            for (int i = 0; i < kRowTiles; i++) mma_product(product, &part[i][4 * e], a[i][n], b[e]);
          }
        }
      }
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        HF_UNROLL
        for (int e = 0; e < 8; e++) warp.out[i][8 * m + e] += part[i][e];
      }
    }
  }
}

// The same by multiply-adds. `v` is what this lane reads of the first key.
HF_DEVICE void multiply_values_exactly(WarpTile& warp, const float (&p)[kRowTiles][kKeys / 2],
                                       unsigned v, unsigned seen) {
  HF_UNROLL
  for (int n = 0; n < kKeys / 8; n++) {
#pragma unroll 1
    for (int key = 0; key < 8; key++) {
      const int holder = (threadIdx.x & 28) + key / 2;
      float a[kRowTiles][2];
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        HF_UNROLL
        for (int h = 0; h < 2; h++) {
          const float even = __shfl_sync(~0u, p[i][4 * n + 2 * h], holder),
                      odd = __shfl_sync(~0u, p[i][4 * n + 2 * h + 1], holder);
          a[i][h] = key % 2 ? odd : even;
        }
      }
      const bool counts = !kElementwise || (__shfl_sync(~0u, seen, holder) >> (2 * n + key % 2) & 1);
      HF_UNROLL
      for (int m = 0; m < kPieces; m++) {
        HF_UNROLL
        for (int x = 0; x < 2; x++) {
          float2 b = load_pair(v + 4 * ((8 * n + key) * kValuePitch + 16 * m + 2 * x));
          if (!counts) b = make_float2(0.0f, 0.0f);
          HF_UNROLL
          for (int e = 0; e < 2; e++) {
            HF_UNROLL
            for (int i = 0; i < kRowTiles; i++) {
              HF_UNROLL
              for (int h = 0; h < 2; h++) {
                float& o = warp.out[i][8 * m + 4 * e + 2 * h + x];
                o = fmaf(a[i][h], e ? b.y : b.x, o);
              }
            }
          }
        }
      }
    }
  }
}

// P = exp2(S * scale - reference), in place of S; adds to the sums.
template <bool kMasked>
HF_DEVICE void exponentials(float (&s)[kKeys / 2], SoftmaxRows& rows, float scale) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const float reference = finite_reference<kMasked>(rows.reference[h]);
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      HF_UNROLL
      for (int e = 0; e < 2; e++) {
        float& x = s[4 * n + 2 * h + e];
        x = exp2_fast(fmaf(x, scale, -reference));
      }
      rows.sum[h] += s[4 * n + 2 * h] + s[4 * n + 2 * h + 1];
    }
  }
}

// Moves the references of the warp's rows where a score of this tile asks for it.
HF_DEVICE void update_references(WarpTile& warp, const float (&s)[kRowTiles][kKeys / 2],
                                 float scale) {
  float largest[kRowTiles][2];
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) row_max(s[i], scale, largest[i]);
  if (must_move(warp.softmax, largest)) {
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      float factor[2];
      move_reference(warp.softmax[i], largest[i], factor);
      scale_rows(warp.out[i], factor);
    }
  }
}

// True if anything of this lane is infinite or NaN.
HF_DEVICE bool has_nonfinite(const WarpTile& warp) {
  float zero = 0.0f;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) zero = fmaf(warp.softmax[i].sum[h], 0.0f, zero);
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) zero = fmaf(warp.out[i][n], 0.0f, zero);
  }
  return !(zero == 0.0f);
}

// O / sum, and the log-sum-exp.
HF_DEVICE void store_result(const AttentionArgs& args, const Work& work, const WarpTile& warp,
                            int fault) {
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);
  const int lane = threadIdx.x & 31;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int query = work.row + threadIdx.x / 32 * kRowTiles * 16 + 16 * i + 8 * h + lane / 4;
      const RowResult result = finish_row(args, work.head, warp.softmax[i].reference[h],
                                          quad_sum(warp.softmax[i].sum[h]), fault);
      if (query >= args.seq_q) continue;
      float* row = (float*)args.out + work.batch * args.out_stride.batch +
                   work.head * args.out_stride.head + query * args.out_stride.seq +
                   work.chunk * kValueDim;
      float* lse_at = args.lse ? args.lse + work.batch * args.lse_stride.batch +
                                     work.head * args.lse_stride.head + query * args.lse_stride.seq
                               : nullptr;
      bool whole_pieces = Spec::aligned;
      if (Spec::split_keys && args.splits > 1) {
        const long long at =
            (((long long)work.split * args.partial_batch + work.batch) * args.heads_q + work.head) *
                args.partial_seq +
            query;
        row = args.partial_out + at * value_dim + work.chunk * kValueDim;
        lse_at = args.partial_lse + at;
        whole_pieces = false;
      }
      if (Spec::lse || Spec::split_keys) {
        if (lse_at && lane % 4 == 0 && work.chunk == 0) *lse_at = result.lse;
      }
      HF_UNROLL
      for (int m = 0; m < kPieces; m++) {
        const int column = 16 * m + lane % 4 * 4;
        float o[4];
        HF_UNROLL
        for (int e = 0; e < 4; e++)
          o[e] = warp.out[i][8 * m + 4 * (e % 2) + 2 * h + e / 2] * result.factor;
        if (whole_pieces && column + 4 <= value_columns) {
          *(float4*)(row + column) = make_float4(o[0], o[1], o[2], o[3]);
        } else {
          HF_UNROLL
          for (int e = 0; e < 4; e++) {
            if (column + e < value_columns) row[column + e] = o[e];
          }
        }
      }
    }
  }
}

// The work of a block. `args` are those of the launch, or of one sequence of a ragged one;
// `sequence` is its number. False if the result has anything not finite and was not stored.
template <bool kExact>
HF_DEVICE bool attend(const AttentionArgs& launch, const AttentionArgs& args, const Work& work,
                      int sequence) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned q_tile = shared_address(shared), k_tile = q_tile + 4 * kRows * kPitch,
                 v_tile = k_tile + 4 * kKeys * kPitch;
  const int lane = threadIdx.x & 31, warp_row = threadIdx.x / 32 * kRowTiles * 16;
  const int head_dim = Spec::head_dim ? Spec::head_dim : args.head_dim;
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;

  // What only the epilogue needs waits in shared memory: registers are what this kernel is short
  // of.
  const unsigned kept = v_tile + 4 * kKeys * kValuePitch;
  if (threadIdx.x == 0) {
    Work epilogue = work;
    if (Spec::ragged) epilogue.batch = sequence;
    keep_work(kept, epilogue);
  }
  const int last_row = min(work.row + kRows, args.seq_q) - 1;
  const KeyRange block_keys = keys_seen_by_any(args, work.row, last_row);
  Steps steps = steps_of(args, work.row, last_row, kKeys);
  if constexpr (Spec::split_keys) take_share(steps, args, work.split, kKeys);

  const float* q = (const float*)args.q + work.batch * args.q_stride.batch +
                   work.head * args.q_stride.head + work.row * args.q_stride.seq;
  const float* k =
      (const float*)args.k + work.batch * args.k_stride.batch + work.kv_head * args.k_stride.head;
  const float* v = (const float*)args.v + work.batch * args.v_stride.batch +
                   work.kv_head * args.v_stride.head + work.chunk * kValueDim;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);
  PagedKeys<kKeys, kThreads> places;
  places.table = kept + 32;
  const auto load_keys = [&](int step) {
    const int first = step * kKeys;
    if constexpr (Spec::paged) {
      load_paged_rows<kKeys, kHeadDim, kPitch, kThreads>(
          k_tile, k, [&](int row) { return places.key(step, row); }, block_keys.first - first,
          block_keys.end - first, head_dim);
    } else {
      load_rows<kKeys, kHeadDim, kPitch, kThreads>(k_tile, k + first * args.k_stride.seq,
                                                   args.k_stride.seq, block_keys.first - first,
                                                   block_keys.end - first, head_dim);
    }
    copies_issued();
  };
  const auto load_values = [&](int step) {
    const int first = step * kKeys;
    if constexpr (Spec::paged) {
      load_paged_rows<kKeys, kValueDim, kValuePitch, kThreads>(
          v_tile, v, [&](int row) { return places.value(step, row); }, block_keys.first - first,
          block_keys.end - first, value_columns);
      places.publish(args, step - 1);
      places.fetch(args, step - 2, block_keys.first, block_keys.end);
    } else {
      load_rows<kKeys, kValueDim, kValuePitch, kThreads>(
          v_tile, v + first * args.v_stride.seq, args.v_stride.seq, block_keys.first - first,
          block_keys.end - first, value_columns);
    }
    copies_issued();
  };
  if constexpr (Spec::paged) {
    places.fetch(args, steps.end - 1, block_keys.first, block_keys.end);
    places.publish(args, steps.end - 1);
    barrier();
    places.fetch(args, steps.end - 2, block_keys.first, block_keys.end);
  }
  load_rows<kRows, kHeadDim, kPitch, kThreads>(q_tile, q, args.q_stride.seq, 0,
                                               args.seq_q - work.row, head_dim);
  if (steps.end > steps.begin) load_keys(steps.end - 1);

  // Where this lane's parts of the tiles begin.
  const unsigned q_lane = q_tile + 4 * ((warp_row + lane % 16) * kPitch + lane / 16 * 4),
                 k_lane = k_tile + 4 * ((lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 4),
                 v_lane = v_tile + 4 * (lane % 4 * 2 * kValuePitch + lane / 4 * 2);
  const float scale = exponent_scale(args);
  WarpTile warp;

  const auto do_step = [&](int step, auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    wait_copies<0>();
    barrier();  // K is there, and all warps are through with V
    load_values(step);
    bool needed = true;
    if constexpr (kMasked) {  // some rows of the block may have no key here
      const int row = work.row + warp_row;
      const KeyRange warp_keys =
          keys_seen_by_any(args, row, min(row + kRowTiles * 16, args.seq_q) - 1);
      needed = step * kKeys < warp_keys.end && (step + 1) * kKeys > warp_keys.first;
    }
    float s[kRowTiles][kKeys / 2];
    unsigned seen = ~0u;
    if (needed) {
      if constexpr (kExact) {
        multiply_keys_exactly(s, q_tile + 4 * (warp_row + lane / 4) * kPitch,
                              k_tile + 4 * (lane % 4 * 2 * kPitch));
      } else {
        multiply_keys(s, q_lane, k_lane);
      }
      if constexpr (kMasked || kScoreModified) {
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          const int row = opaque(work.row + warp_row + 16 * i + lane / 4);
          modify_scores<kMasked>(args, s[i], {{row, row + 8}, {work.head, work.head}}, work.batch,
                                 step * kKeys + 2 * (lane & 3));
        }
      }
      if constexpr (kElementwise) seen = keys_in_sight(s);
      update_references(warp, s, scale);
    }
    wait_copies<0>();
    barrier();  // V is there, and all warps are through with K
    if (step > steps.begin) load_keys(step - 1);
    if (needed) {
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) exponentials<kMasked>(s[i], warp.softmax[i], scale);
      if constexpr (kExact) {
        multiply_values_exactly(warp, s, v_tile + 4 * (lane % 4 * 4), seen);
      } else {
        multiply_values(warp, s, v_lane, seen);
      }
    }
  };

  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    warp.softmax[i].clear();
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) warp.out[i][n] = 0.0f;
  }
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
  if constexpr (kExact) {
    barrier();
  } else {
    if (__syncthreads_or(has_nonfinite(warp))) return false;
  }
  finish_work(launch, args, kept, [&](const AttentionArgs& of, const Work& done, int fault) {
    store_result(of, done, warp, fault);
  });
  return true;
}

// Finds the work of a block and does it.
template <bool kExact>
HF_DEVICE bool attend_block(const AttentionArgs& args) {
  // Read anew each time, so that nothing that follows from it is kept from the first try to the
  // second.
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int chunks = nvtf32_value_chunks(kRowTiles, value_dim);
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
                                                 pieces_together(tiles, 1), 4);
    return attend<kExact>(args, args, work_of<kRows, false>(args, block, together, chunks), 0);
  }
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads, Spec::blocks_per_sm)
    attention_forward(const __grid_constant__ AttentionArgs args) {
  if (!attend_block<false>(args)) attend_block<true>(args);
}
