// Attention in f32 by fused multiply-adds: NVIDIA's matrix units have no f32 (tf32 keeps 11 bits).
//
// A warp has 32 query rows, 8 of them per lane. A lane holds rows lane_row() + 4i and keys
// lane_key() + 8j of a score tile, and the same rows and columns 4 lane_key() + 32m .. +3 of the
// output. Operands come from shared memory as 16-byte pieces, of which each feeds 32 multiply-adds;
// P goes there too, over the keys, and each warp reads only its own.
#include "gpu/tile/nv/cuda.h"

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/nv/accumulator_rows.h"
#include "gpu/tile/nv/rows_f32.h"

#include "gpu/tile/nv/ragged.h"

#include "gpu/tile/nv/merge.h"

namespace hipflash {

constexpr int kHeadDim = round_up(Spec::head_dim ? Spec::head_dim : nv_max_head_dim(), 8);
constexpr int kValueDim =
    nvf32_value_chunk(Spec::value_head_dim ? Spec::value_head_dim : nv_max_head_dim());
constexpr int kKeys = Spec::tile_keys;
constexpr int kThreads = Spec::waves * 32, kRows = kThreads;
constexpr int kLaneRows = 8, kLaneKeys = kKeys / 8, kPieces = kValueDim / 32;
// Pitches in floats: an odd number of 16-byte pieces for rows that 8 lanes read at once; 8 more
// than a multiple of 16 for P, which 32 lanes write as 4 rows of 8.
constexpr int kPitch = kHeadDim + 4, kPPitch = kKeys + 8;

HF_DEVICE int lane_row() {
  return threadIdx.x % 32 / 8;
}
HF_DEVICE int lane_key() {
  return threadIdx.x % 8;
}

// S = Q . K^T. `q` and `k` are this lane's first row and key.
HF_DEVICE void multiply_keys(float (&s)[kLaneRows][kLaneKeys], unsigned q, unsigned k) {
  HF_UNROLL
  for (int i = 0; i < kLaneRows; i++) {
    HF_UNROLL
    for (int j = 0; j < kLaneKeys; j++) s[i][j] = 0.0f;
  }
#pragma unroll 1
  for (int c = 0; c < kHeadDim; c += 4) {
    float4 a[kLaneRows];
    HF_UNROLL
    for (int i = 0; i < kLaneRows; i++) a[i] = load_piece(q + 4 * (4 * i * kPitch + c));
    HF_UNROLL
    for (int j = 0; j < kLaneKeys; j++) {
      const float4 b = load_piece(k + 4 * (8 * j * kPitch + c));
      HF_UNROLL
      for (int e = 0; e < 4; e++) {
        HF_UNROLL
        for (int i = 0; i < kLaneRows; i++)
          s[i][j] = fmaf(component(a[i], e), component(b, e), s[i][j]);
      }
    }
  }
}

// O += P . V. `seen` has a bit for each key that some row of the warp sees; the values of others do
// not count, whatever they are.
HF_DEVICE void multiply_values(float4 (&out)[kLaneRows][kPieces], unsigned p, unsigned v,
                               unsigned long long seen) {
#pragma unroll 1
  for (int key = 0; key < kKeys; key += 4) {
    float4 a[kLaneRows];
    HF_UNROLL
    for (int i = 0; i < kLaneRows; i++) a[i] = load_piece(p + 4 * (4 * i * kPPitch + key));
    HF_UNROLL
    for (int e = 0; e < 4; e++) {
      HF_UNROLL
      for (int m = 0; m < kPieces; m++) {
        float4 b = load_piece(v + 4 * ((key + e) * kValueDim + 32 * m));
        if constexpr (kElementwise) {
          if (!(seen >> (key + e) & 1)) b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        HF_UNROLL
        for (int i = 0; i < kLaneRows; i++) {
          const float w = component(a[i], e);
          out[i][m].x = fmaf(w, b.x, out[i][m].x);
          out[i][m].y = fmaf(w, b.y, out[i][m].y);
          out[i][m].z = fmaf(w, b.z, out[i][m].z);
          out[i][m].w = fmaf(w, b.w, out[i][m].w);
        }
      }
    }
  }
}

// Modified scores, and -inf where a row does not see a key; `key` is the lane's first.
template <bool kMasked>
HF_DEVICE void modify_lane_scores(const AttentionArgs& args, float (&s)[kLaneRows][kLaneKeys],
                                  const Work& work, int row, int key) {
  const float slope = alibi_slope(args, work.batch, work.head);
  HF_UNROLL
  for (int i = 0; i < kLaneRows; i++) {
    const int query = opaque(row + 4 * i);
    const KeyRange range = visible_keys(args, query);
    HF_UNROLL
    for (int j = 0; j < kLaneKeys; j++) {
      const int at = key + 8 * j;
      float score = s[i][j];
      if constexpr (kScoreModified)
        score = modify_score(args, score, slope, (float)(query + args.alibi_diagonal - at));
      if constexpr (kMasked) {
        bool seen = sees(range, at) && (!kElementwise || query < args.seq_q);
        hide_elementwise(args, work.batch, work.head, query, at, seen, score);
        score = seen ? score : -kInfinity;
      }
      s[i][j] = score;
    }
  }
}

HF_DEVICE float octet_max(float x) {
  HF_UNROLL
  for (int d = 1; d < 8; d *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  return x;
}
HF_DEVICE float octet_sum(float x) {
  HF_UNROLL
  for (int d = 1; d < 8; d *= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

// A bit for each key that some row of the warp sees.
HF_DEVICE unsigned long long keys_in_sight(const float (&s)[kLaneRows][kLaneKeys]) {
  unsigned long long seen = 0;
  HF_UNROLL
  for (int j = 0; j < kLaneKeys; j++) {
    bool any = false;
    HF_UNROLL
    for (int i = 0; i < kLaneRows; i++) any |= !(s[i][j] == -kInfinity);
    const unsigned bits = __reduce_or_sync(~0u, any ? 1u << lane_key() : 0u);
    seen |= (unsigned long long)bits << (8 * j);
  }
  return seen;
}

// Moves the references of the lane's rows where a score of this tile asks for it.
HF_DEVICE void update_references(const float (&s)[kLaneRows][kLaneKeys],
                                 float4 (&out)[kLaneRows][kPieces], float (&reference)[kLaneRows],
                                 float (&sum)[kLaneRows], float scale) {
  float largest[kLaneRows];
  bool grown = false;
  HF_UNROLL
  for (int i = 0; i < kLaneRows; i++) {
    largest[i] = s[i][0];
    HF_UNROLL
    for (int j = 1; j < kLaneKeys; j++) largest[i] = fmaxf(largest[i], s[i][j]);
    largest[i] *= scale;
    grown |= largest[i] > reference[i] + kSlack;
  }
  if (!__any_sync(~0u, grown)) return;
  HF_UNROLL
  for (int i = 0; i < kLaneRows; i++) {
    const float now = fmaxf(reference[i], octet_max(largest[i]));
    const float factor = reference[i] == -kInfinity ? 0.0f : exp2_fast(reference[i] - now);
    reference[i] = now;
    sum[i] *= factor;
    HF_UNROLL
    for (int m = 0; m < kPieces; m++) {
      out[i][m].x *= factor;
      out[i][m].y *= factor;
      out[i][m].z *= factor;
      out[i][m].w *= factor;
    }
  }
}

// O / sum, and the log-sum-exp.
HF_DEVICE void store_result(const AttentionArgs& args, const Work& work,
                            const float4 (&out)[kLaneRows][kPieces],
                            const float (&reference)[kLaneRows], const float (&sum)[kLaneRows],
                            int fault) {
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);
  HF_UNROLL
  for (int i = 0; i < kLaneRows; i++) {
    const int query = work.row + threadIdx.x / 32 * 32 + lane_row() + 4 * i;
    const RowResult result = finish_row(args, work.head, reference[i], octet_sum(sum[i]), fault);
    const float lse = result.lse, factor = result.factor;
    if (query >= args.seq_q) continue;
    const ResultRow to = result_row<kValueDim>(args, work, query, value_dim);
    if (Spec::lse || Spec::split_keys) {
      if (to.lse && lane_key() == 0 && work.chunk == 0) *to.lse = lse;
    }
    HF_UNROLL
    for (int m = 0; m < kPieces; m++) {
      const int column = 4 * lane_key() + 32 * m;
      const float4 x = make_float4(out[i][m].x * factor, out[i][m].y * factor, out[i][m].z * factor,
                                   out[i][m].w * factor);
      if (to.whole_pieces && column + 4 <= value_columns) {
        *(float4*)(to.values + column) = x;
      } else {
        if (column < value_columns) to.values[column] = x.x;
        if (column + 1 < value_columns) to.values[column + 1] = x.y;
        if (column + 2 < value_columns) to.values[column + 2] = x.z;
        if (column + 3 < value_columns) to.values[column + 3] = x.w;
      }
    }
  }
}

// The work of a block. `args` are those of the launch, or of one sequence of a ragged one;
// `sequence` is its number.
HF_DEVICE void attend(const AttentionArgs& launch, const AttentionArgs& args, const Work& work,
                      int sequence) {
  HF_SHARED_BYTES(shared);
  const unsigned q_tile = shared_address(shared), k_tile = q_tile + 4 * kRows * kPitch;
  const unsigned p_tile = Spec::p_over_keys ? k_tile : k_tile + 4 * kKeys * kPitch;
  const unsigned v_tile = Spec::p_over_keys ? k_tile + 4 * max(kKeys * kPitch, kRows * kPPitch)
                                            : p_tile + 4 * kRows * kPPitch;
  const int warp_index = threadIdx.x / 32;
  const int head_dim = Spec::head_dim ? Spec::head_dim : args.head_dim;
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;

  // What only the epilogue needs waits in shared memory: registers are what this kernel is short
  // of.
  const unsigned kept = v_tile + 4 * kKeys * kValueDim;
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
      load_rows_at<kKeys, kHeadDim, kPitch, kThreads, 4>(
          k_tile, k, [&](int row) { return places.key(step, row); }, block_keys.first - first,
          block_keys.end - first, head_dim, threadIdx.x);
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
      load_rows_at<kKeys, kValueDim, kValueDim, kThreads, 4>(
          v_tile, v, [&](int row) { return places.value(step, row); }, block_keys.first - first,
          block_keys.end - first, value_columns, threadIdx.x);
      places.publish(args, step - 1, (step - 1) * kKeys, k, v);
      places.fetch(args, (step - 2) * kKeys, block_keys.first, block_keys.end);
    } else {
      load_rows<kKeys, kValueDim, kValueDim, kThreads>(v_tile, v + first * args.v_stride.seq,
                                                       args.v_stride.seq, block_keys.first - first,
                                                       block_keys.end - first, value_columns);
    }
    copies_issued();
  };
  if constexpr (Spec::paged) {
    places.fetch(args, (steps.end - 1) * kKeys, block_keys.first, block_keys.end);
    places.publish(args, steps.end - 1, (steps.end - 1) * kKeys, k, v);
    barrier();
    places.fetch(args, (steps.end - 2) * kKeys, block_keys.first, block_keys.end);
  }
  load_rows<kRows, kHeadDim, kPitch, kThreads>(q_tile, q, args.q_stride.seq, 0,
                                               args.seq_q - work.row, head_dim);
  copies_issued();
  if (steps.end > steps.begin) load_keys(steps.end - 1);

  // This lane's first row in the block, and where its parts of the tiles begin.
  const int first_row = warp_index * 32 + lane_row();
  const unsigned q_lane = q_tile + 4 * first_row * kPitch,
                 k_lane = k_tile + 4 * lane_key() * kPitch;
  const unsigned v_lane = v_tile + 16 * lane_key(), p_lane = p_tile + 4 * first_row * kPPitch;

  float4 out[kLaneRows][kPieces];
  float reference[kLaneRows], sum[kLaneRows];
  HF_UNROLL
  for (int i = 0; i < kLaneRows; i++) {
    HF_UNROLL
    for (int m = 0; m < kPieces; m++) out[i][m] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    reference[i] = -kInfinity;
    sum[i] = 0.0f;
  }
  const float scale = exponent_scale(args);

  const auto do_step = [&](int step, auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    wait_copies<0>();
    barrier();  // K is there, and all warps are through with V
    load_values(step);
    bool needed = true;
    if constexpr (kMasked) {  // some rows of the block may have no key here
      const int row = work.row + warp_index * 32;
      const KeyRange warp_keys = keys_seen_by_any(args, row, min(row + 32, args.seq_q) - 1);
      needed = step * kKeys < warp_keys.end && (step + 1) * kKeys > warp_keys.first;
    }
    float s[kLaneRows][kLaneKeys];
    unsigned long long seen = 0;
    if (needed) {
      multiply_keys(s, q_lane, k_lane);
      if constexpr (kMasked || kScoreModified) {
        modify_lane_scores<kMasked>(args, s, work, work.row + first_row, step * kKeys + lane_key());
      }
      if constexpr (kElementwise) seen = keys_in_sight(s);
      update_references(s, out, reference, sum, scale);
    }
    if constexpr (Spec::p_over_keys) barrier();  // all warps are through with K
    if (needed) {
      __syncwarp();  // the warp is through with its last P
      HF_UNROLL
      for (int i = 0; i < kLaneRows; i++) {
        const float base = finite_reference<kMasked>(reference[i]);
        HF_UNROLL
        for (int j = 0; j < kLaneKeys; j++) {
          const float x = exp2_fast(fmaf(s[i][j], scale, -base));
          sum[i] += x;
          store_word(p_lane + 4 * (4 * i * kPPitch + lane_key() + 8 * j), x);
        }
      }
    }
    wait_copies<0>();
    barrier();  // V is there, and all warps are through with K
    if (!Spec::p_over_keys && step > steps.begin) load_keys(step - 1);
    if (needed) multiply_values(out, p_lane, v_lane, seen);
    if constexpr (Spec::p_over_keys) {
      barrier();
      if (step > steps.begin) load_keys(step - 1);
    }
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
  barrier();
  finish_work(launch, args, kept, [&](const AttentionArgs& of, const Work& done, int fault) {
    store_result(of, done, out, reference, sum, fault);
  });
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads, Spec::blocks_per_sm)
    attention_forward(const __grid_constant__ AttentionArgs args) {
  if constexpr (Spec::split_keys) launch_next();
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  if constexpr (Spec::ragged) {
    Work work = ragged_work_of<kRows, false>(args, blockIdx.x, nvf32_value_chunks(value_dim));
    const int sequence = work.batch;
    int fault;
    const AttentionArgs one = arguments_of_sequence(args, sequence, fault);
    if (fault == kOffsetsFault && args.fault) *args.fault = fault;
    work.batch = 0;
    if (work.row < one.seq_q) attend(args, one, work, sequence);
  } else {
    // This kernel is bound by arithmetic alone: with rows of different lengths the longest of all
    // heads come first.
    const int tiles = ceil_div(args.seq_q, kRows);
    const int together = Spec::window_right
                             ? args.batch * args.heads_q
                             : nv_heads_together(args, args.heads_q / args.heads_kv, tiles,
                                                 pieces_together(tiles, 1), 4);
    const Work work = work_of<kRows>(args, blockIdx.x, together, nvf32_value_chunks(value_dim));
    attend(args, args, work, 0);
  }
}
