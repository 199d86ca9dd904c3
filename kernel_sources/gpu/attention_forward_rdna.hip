// Flash attention forward for GPUs with 16x16x16 matrix products per wave: RDNA3, RDNA3.5, RDNA4.
//
//   S^T = K Q^T     a lane holds eight keys of one query, so the softmax stays in the lane
//   O^T = V^T P^T   and P is the second product's operand, after an exchange of half waves on gfx11
//
// A block owns wmma_queries() consecutive queries of one head, and walks over the keys that any of
// them sees, a tile at a time. While a tile is multiplied, the next K and V are on their way.
//
// Matrix products do not run beside vector instructions here, so every vector instruction counts.
// There is no running maximum: exponents are taken relative to the maximum of earlier tiles
// (the reference), and the row sum, which is needed anyway, tells when that no longer serves.
//
// Rows of a block are queries of one head or, with Spec::pack_heads, of a group
// (tile/amd/block_rows.h). Ragged calls: a block takes its sequence out of the call
// (common/sequence.h) and works on it as on a call of its own. Where keys are in pages, Rows finds
// them (tile/amd/pages.h).
#include "gpu/tile/rdna/wmma.h"

#include "common/mask.h"
#include "common/score.h"
#include "gpu/tile/amd/block_place.h"
#include "gpu/tile/amd/block_rows.h"
#include "gpu/tile/amd/merge_splits.h"
#include "gpu/tile/amd/score_cells.h"
#include "gpu/tile/amd/sink.h"
#include "gpu/tiles_rdna.h"

namespace hipflash {

static_assert(Spec::element != ElementType::f32, "f32 belongs to attention_forward_dot.hip");

constexpr rdna::WmmaTile kTile = {Spec::waves, Spec::query_tiles, Spec::tile_keys,
                                  Spec::query_shared, Spec::value_slice};
constexpr rdna::WmmaShared kAt = rdna::wmma_shared(kGeneration, kTile, Spec::head_dim);
constexpr int kThreads = rdna::wmma_threads(kTile);
constexpr int kQueries = rdna::wmma_queries(kTile);
constexpr int kWaveQueries = 16 * kTile.query_tiles;
constexpr int kSlices = rdna::wmma_slices(kTile, Spec::value_head_dim);

constexpr int kQueryTiles = kTile.query_tiles;                      // of a wave, 16 rows each
constexpr int kKeys = kTile.tile_keys;                              // of a step
constexpr int kKeyTiles = kKeys / 16;                               // of a step
constexpr int kDimTiles = rdna::round_up(Spec::head_dim, 16) / 16;  // of Q and K
constexpr int kValueTiles = kTile.value_slice / 16;                 // of V and O, in this block

static_assert((kTile.waves & (kTile.waves - 1)) == 0 && kKeys % 16 == 0, "see WmmaTile");
static_assert(kTile.value_slice % 16 == 0 && kAt.bytes <= rdna::kSharedLimit, "see WmmaTile");

}  // namespace hipflash

#include "gpu/tile/rdna/staging.h"

namespace hipflash {

// ---- what a wave keeps from step to step --------------------------------------------------------

// Where this lane's operands lie in shared memory.
struct Reading {
  int k, v, q;
};

// The online softmax of a lane's queries. `total` counts the keys of this half wave alone; the
// halves meet at the end.
struct Softmax {
  float reference[kQueryTiles];  // -inf until a visible key came
  float total[kQueryTiles];
};

struct Queries {
  Operand tile[kQueryTiles][kTile.query_shared ? 1 : kDimTiles];
};
using Scores = Accumulator[kQueryTiles][kKeyTiles];
using Output = Accumulator[kQueryTiles][kValueTiles];

struct Wave {
  Reading read;
  KeyRange seen;                  // by any of its rows
  int query[kQueryTiles];         // of this lane; past the end: the last one
  int head[kQueryTiles];          // likewise
  KeyRange visible[kQueryTiles];  // to this lane's query
  float slope[kQueryTiles];
  float scale;   // scores to exponents of two
  float hidden;  // a score whose exponent is -inf
  int batch;
};

HF_DEVICE Operand key_operand(const char* shared, const Wave& wave, int key_tile, int dim_tile) {
  return load_operand(shared + kAt.k + wave.read.k + key_tile * 16 * kAt.k_row + dim_tile * 32);
}
HF_DEVICE Operand value_operand(const char* shared, const Wave& wave, int value_tile,
                                int key_tile) {
  return load_operand(shared + kAt.v + wave.read.v +
                      value_tile * (16 / kAt.group_rows) * kAt.group + key_tile * 32);
}
HF_DEVICE int query_offset(const Wave& wave, int query_tile, int dim_tile) {
  return kAt.q + wave.read.q + query_tile * 16 * kAt.k_row + dim_tile * 32;
}

// ---- the parts of a step ------------------------------------------------------------------------

// kOrdered pins the order of instructions, which takes fewer registers.
template <bool kOrdered>
HF_DEVICE void multiply_keys(Scores& s, const char* shared, const Wave& wave, const Queries& q) {
  HF_UNROLL
  for (int d = 0; d < kDimTiles; d++) {
    HF_UNROLL
    for (int t = 0; t < kKeyTiles; t++) {
      const Operand k = key_operand(shared, wave, t, d);
      HF_UNROLL
      for (int m = 0; m < kQueryTiles; m++) {
        Operand query;
        if constexpr (kTile.query_shared) {
          query = load_operand(shared + query_offset(wave, m, d));
        } else {
          query = q.tile[m][d];
        }
        s[m][t] = mma(k, query, d ? s[m][t] : Accumulator{});
      }
    }
    if constexpr (kOrdered) {
      HF_UNROLL
      for (int t = 0; t < kKeyTiles; t++) {
        HF_UNROLL
        for (int m = 0; m < kQueryTiles; m++) settle(s[m][t]);
      }
      fence();
    }
  }
}

// Softcap, ALiBi and bias, where the spec has them. kEdge: some keys may lie past the end.
template <bool kEdge>
HF_DEVICE void modify_scores(Scores& s, const AttentionArgs& args, const Wave& wave,
                             int first_key) {
  const int half_key = first_key + 8 * (lane_id() / 16);
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    HF_UNROLL
    for (int t = 0; t < kKeyTiles; t++) {
      const int key = half_key + 16 * t;
      if constexpr (kScoreModified) {
        const float distance = static_cast<float>(wave.query[m] + args.alibi_diagonal - key);
        s[m][t] = modify_score<Accumulator>(args, s[m][t], wave.slope[m],
                                            distance - Accumulator{0, 1, 2, 3, 4, 5, 6, 7});
      }
      if constexpr (Spec::bias) {
        add_bias<kEdge>(s[m][t], args, wave.batch, wave.head[m], wave.query[m], key);
      }
      if constexpr (Spec::mask) {
        apply_mask<kEdge>(s[m][t], args, wave.batch, wave.head[m], wave.query[m], key, wave.hidden);
      }
      if constexpr (kScoreModified) fence();  // temporaries of one tile at a time
    }
  }
}

// Hides the keys that causality, the window or the end of the keys hides from a query.
HF_DEVICE void mask_range(Scores& s, const Wave& wave, int first_key) {
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    const int lane_key = first_key + 8 * (lane_id() / 16);
    const int first = wave.visible[m].first - lane_key, end = wave.visible[m].end - lane_key;
    HF_UNROLL
    for (int t = 0; t < kKeyTiles; t++) {
      HF_UNROLL
      for (int r = 0; r < 8; r++) {
        const int key = 16 * t + r;
        bool sees_key = key < end;
        if constexpr (Spec::window_left) sees_key = sees_key && key >= first;
        s[m][t][r] = sees_key ? s[m][t][r] : wave.hidden;
      }
    }
  }
}

using Probabilities = u32x4[kQueryTiles][kKeyTiles];

// p = 2^(scale * s - reference), and its row sums over this lane's keys.
HF_DEVICE void exponentiate(Probabilities& p, float (&sum)[kQueryTiles], const Scores& s,
                            float scale, const float (&reference)[kQueryTiles]) {
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    HF_UNROLL
    for (int t = 0; t < kKeyTiles; t++) {
      float e[8];
      HF_UNROLL
      for (int r = 0; r < 8; r++) e[r] = hf_exp2(hf_fma(s[m][t][r], scale, -reference[m]));
      HF_UNROLL
      for (int i = 0; i < 4; i++) p[m][t][i] = pack_truncated(e[2 * i], e[2 * i + 1]);
      const float part = ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7]));
      sum[m] = t ? sum[m] + part : part;
    }
  }
}

// Raises the references to the maxima of this tile, and scales what was summed up so far to match.
HF_DEVICE void renew_reference(Softmax& softmax, Output& o, const Scores& s, float scale) {
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    float top = -kInfinity;
    HF_UNROLL
    for (int t = 0; t < kKeyTiles; t++) {
      HF_UNROLL
      for (int r = 0; r < 8; r++) top = hf_max(top, s[m][t][r] * scale);
    }
    top = hf_max(top, other_half(top)) - kTruncationLoss * kLog2e;
    const float old = softmax.reference[m], renewed = hf_max(old, top);
    const float shrink = old == -kInfinity ? 0.0f : hf_exp2(old - renewed);
    softmax.reference[m] = renewed;
    softmax.total[m] *= shrink;
    HF_UNROLL
    for (int d = 0; d < kValueTiles; d++) o[m][d] *= shrink;
  }
}

// P of this tile and the softmax state after it. 2^10 is harmless growth for a 16-bit P. Rows that
// saw nothing yet have the reference -inf, and NaN sums fail the comparison too.
HF_DEVICE void softmax_step(Probabilities& p, Softmax& softmax, Output& o, const Scores& s,
                            float scale) {
  float sum[kQueryTiles];
  exponentiate(p, sum, s, scale, softmax.reference);
  bool stale = false;
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) stale |= !(sum[m] <= 1024.0f);
  if (__builtin_expect(any_lane(stale), 0)) {
    renew_reference(softmax, o, s, scale);
    float reference[kQueryTiles];
    HF_UNROLL
    for (int m = 0; m < kQueryTiles; m++) {
      reference[m] = softmax.reference[m] == -kInfinity ? 0.0f : softmax.reference[m];
    }
    exponentiate(p, sum, s, scale, reference);
  }
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) softmax.total[m] += sum[m];
}

// A key that a mask or bias hides from all queries of the wave may hold anything in V, NaN too:
// 0 * NaN must not reach the output. Returns the words to and V's operands with.
HF_DEVICE Operand seen_keys(const Scores& s, int t, float hidden) {
  u32 low = 0, high = 0;  // bit r: some query sees key r, or 8 + r
  HF_UNROLL
  for (int r = 0; r < 8; r++) {
    bool seen = false;
    HF_UNROLL
    for (int m = 0; m < kQueryTiles; m++) seen |= s[m][t][r] != hidden;
    const u32 lanes = ballot(seen);
    low |= (lanes & 0xffffu ? 1u : 0u) << r;
    high |= (lanes >> 16 ? 1u : 0u) << r;
  }
  const u32 seen = (low | high << 8) >> operand_k(lane_id() / 16);
  Operand words;
  HF_UNROLL
  for (int i = 0; i < static_cast<int>(sizeof(Operand) / 4); i++) {
    words[i] =
        (seen >> (2 * i) & 1u ? 0xffffu : 0u) | (seen >> (2 * i + 1) & 1u ? 0xffff0000u : 0u);
  }
  return words;
}

template <bool kOrdered>
HF_DEVICE void multiply_values(Output& o, const char* shared, const Wave& wave,
                               const Probabilities& p, const Scores& s) {
  HF_UNROLL
  for (int t = 0; t < kKeyTiles; t++) {
    Operand operand[kQueryTiles];
    HF_UNROLL
    for (int m = 0; m < kQueryTiles; m++) operand[m] = to_operand(p[m][t]);
    Operand seen;
    if constexpr (Spec::mask || Spec::bias) seen = seen_keys(s, t, wave.hidden);
    HF_UNROLL
    for (int d = 0; d < kValueTiles; d++) {
      Operand v = value_operand(shared, wave, d, t);
      if constexpr (Spec::mask || Spec::bias) v &= seen;
      HF_UNROLL
      for (int m = 0; m < kQueryTiles; m++) o[m][d] = mma(v, operand[m], o[m][d]);
      if (kOrdered && d % 4 == 3) {
        HF_UNROLL
        for (int m = 0; m < kQueryTiles; m++) settle(o[m][d]);
        fence();
      }
    }
  }
}

// One tile of keys. On entry its K is in `k`; on exit the next tile's is. kEdge: some query sees
// not all of these keys, and whole waves may have no work.
template <bool kEdge>
HF_DEVICE void step(char* shared, const AttentionArgs& args, Staging& staging, const Wave& wave,
                    const Queries& q, int first_key, KeyPieces& k, Softmax& softmax, Output& o) {
  // Few packed rows leave waves without any, which only bring K and V.
  const bool live = (!kEdge && !Spec::pack_heads) ||
                    (first_key < wave.seen.end && first_key + kKeys > wave.seen.first);
  constexpr bool kOrdered = kEdge || kOrderedProducts || kTile.query_shared || kDimTiles > 8 ||
                            kScoreModified || Spec::mask || !Spec::aligned;
  ValuePieces v;
  Scores s;
  Probabilities p;

  store(shared, staging, k);
  load(v, staging, first_key);  // on its way while K is multiplied
  barrier();
  if (live) multiply_keys<kOrdered>(s, shared, wave, q);
  store_transposed(shared, staging, v);
  load(k, staging, first_key + kKeys);  // on its way during the softmax and the second product
  if (live) {
    modify_scores<kEdge>(s, args, wave, first_key);
    if constexpr (kEdge) mask_range(s, wave, first_key);
    softmax_step(p, softmax, o, s, wave.scale);
  }
  barrier();
  if (live) multiply_values<kOrdered>(o, shared, wave, p, s);
}

// ---- before and after the loop ------------------------------------------------------------------

HF_DEVICE void load_queries(Queries& q, char* shared, const AttentionArgs& args, const Wave& wave) {
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    const u16* head = static_cast<const u16*>(args.q) + wave.batch * args.q_stride.batch +
                      wave.head[m] * args.q_stride.head;
    const u16* row = head + wave.query[m] * args.q_stride.seq;
    HF_UNROLL
    for (int d = 0; d < kDimTiles; d++) {
      Operand operand;
      HF_UNROLL
      for (int i = 0; i < static_cast<int>(sizeof(Operand) / 16); i++) {
        const int dim = 16 * d + operand_k(lane_id() / 16) + 8 * i;
        const u32x4 piece = load_piece<Spec::head_dim>(row, dim);
        HF_UNROLL
        for (int j = 0; j < 4; j++) operand[4 * i + j] = piece[j];
      }
      if constexpr (kTile.query_shared) {  // read by this wave alone, so no barrier
        store_operand(shared + query_offset(wave, m, d), operand);
      } else {
        q.tile[m][d] = operand;
      }
    }
  }
}

// Divides by the row sums and writes output and LSE, or this split's part of both.
HF_DEVICE void finish(const AttentionArgs& args, const Place& place, int first_row, int fault,
                      const Softmax& softmax, const Output& o) {
  const int half = lane_id() / 16;
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    const int row_index = first_row + 16 * m + lane_id() % 16;
    const float total = softmax.total[m] + other_half(softmax.total[m]);
    // A row that saw nothing gives 0; NaN stays.
    float inverse = total == 0.0f ? 0.0f : (1.0f + kTruncationLoss) / total;
    float lse = total == 0.0f ? -kInfinity : (hf_log2(total) + softmax.reference[m]) * kLn2;
    if (row_index >= rows_of_head(args)) continue;
    if constexpr (Spec::sinks || Spec::ragged) {
      const SinkResult row = finished_row(args, place, row_index, lse, fault);
      inverse *= row.factor;
      lse = row.lse;
    }
    const RowTarget to = row_target(args, place, row_index);
    u16* row = static_cast<u16*>(args.out) + to.out;
    HF_UNROLL
    for (int d = 0; d < kValueTiles; d++) {
      const int dim = place.slice * kTile.value_slice + 16 * d + 8 * half;
      const Accumulator value = o[m][d] * inverse;
      if (writes_parts(args)) {
        float* part = args.partial_out + to.cell * Spec::value_head_dim + dim;
        HF_UNROLL
        for (int r = 0; r < 8; r++) {
          if (dim + r < Spec::value_head_dim) part[r] = value[r];
        }
      } else {
        u32x4 piece;
        HF_UNROLL
        for (int j = 0; j < 4; j++) piece[j] = pack_nearest(value[2 * j], value[2 * j + 1]);
        store_piece<Spec::value_head_dim>(row, dim, piece);
      }
    }
    if (half == 0 && place.slice == 0) store_lse(args, to, lse);
  }
}

// A block's rows, for a call with one sequence of each batch index. `fault`: the sequence's numbers
// cannot be right.
HF_DEVICE void attend(const AttentionArgs& args, const Place& place, int fault) {
  HF_SHARED(shared, kAt.bytes);
  const auto [seen, whole] = block_keys<kQueries, kKeys>(args, place);

  const int lane = lane_id(), half = lane / 16, column = lane % 16;
  const int rows = rows_of_head(args);
  const int wave_first = place.first_row + wave_id() * kWaveQueries;
  const int wave_last = rdna::smaller(wave_first + kWaveQueries, rows) - 1;
  Wave wave;
  wave.batch = place.batch;
  wave.seen = KeyRange{0, 0};
  if (wave_first < rows) {
    wave.seen =
        keys_seen_by_any(args, query_of_row(args, wave_first), query_of_row(args, wave_last));
  }
  wave.scale = nonzero_exponent_scale(args);
  wave.hidden = hidden_score(wave.scale);
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    const int row = rdna::smaller(wave_first + 16 * m + column, rows - 1);
    wave.query[m] = query_of_row(args, row);
    wave.head[m] = head_of_row(args, place.head, row);
    wave.slope[m] = alibi_slope(args, place.batch, wave.head[m]);
    wave.visible[m] = visible_to_row(args, wave.query[m], seen);
  }
  wave.read.k = column * kAt.k_row + operand_k(half) * 2;
  wave.read.v = column / kAt.group_rows * kAt.group + column % kAt.group_rows * kAt.v_row +
                operand_k(half) * 2;
  wave.read.q = (wave_id() * kWaveQueries + column) * kAt.k_row + operand_k(half) * 2;

  Staging staging =
      make_staging(args, place.batch, place.head_kv, place.slice * kTile.value_slice, seen);
  KeyPieces k;
  Queries q;
  Softmax softmax;
  Output o;
  if (seen.first < seen.end) load(k, staging, seen.first);
  load_queries(q, shared, args, wave);
  HF_UNROLL
  for (int m = 0; m < kQueryTiles; m++) {
    softmax.reference[m] = -kInfinity;
    softmax.total[m] = 0.0f;
    HF_UNROLL
    for (int d = 0; d < kValueTiles; d++) o[m][d] = Accumulator{};
  }

  int key = seen.first;
  if constexpr (Spec::window_left) {
    for (; key < whole.first && key < seen.end; key += kKeys) {
      step<true>(shared, args, staging, wave, q, key, k, softmax, o);
    }
  }
  for (; key + kKeys <= whole.end; key += kKeys) {
    step<false>(shared, args, staging, wave, q, key, k, softmax, o);
  }
  for (; key < seen.end; key += kKeys) {
    step<true>(shared, args, staging, wave, q, key, k, softmax, o);
  }
  finish(args, place, wave_first, fault, softmax, o);
}

}  // namespace hipflash

HF_KERNEL HF_THREADS(hipflash::kThreads) void attention_forward(
    const hipflash::AttentionArgs args) {
  using namespace hipflash;
  const auto attend_block = [](const AttentionArgs& one, const Place& place, int fault)
                                HF_LAMBDA { attend(one, place, fault); };
  for_block_of_call<kQueries, kSlices>(args, attend_block);
}

HF_KERNEL HF_THREADS(hipflash::rdna::kMergeThreads) void attention_merge(
    const hipflash::AttentionArgs args) {
  hipflash::merge_splits(args);
}
