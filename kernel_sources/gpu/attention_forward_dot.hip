// Flash attention forward with plain multiply-adds: for cards without matrix units, and for f32 on
// every card whose matrix units have no f32.
//
// A block owns dot_queries() consecutive queries of one head. Sixteen threads share four of them:
// each computes the scores of every 16th key and the output of every 16th quad of value dims.
// Probabilities change hands through shared memory. Large head dims pass through shared memory in
// chunks.
//
// Rows of a block are queries of one head or, with Spec::pack_heads, of a group
// (tile/amd/block_rows.h). Ragged calls: a block takes its sequence out of the call
// (common/sequence.h) and works on it as on a call of its own. Where keys are in pages, the
// addresses of a tile's rows are looked up a tile ahead and stand in shared memory
// (tile/amd/pages.h).
#include "gpu/tile/amd/dot.h"

#include "common/mask.h"
#include "common/score.h"
#include "gpu/tile/amd/block_place.h"
#include "gpu/tile/amd/block_rows.h"
#include "gpu/tile/amd/merge_splits.h"
#include "gpu/tile/amd/pages.h"
#include "gpu/tile/amd/score_cells.h"
#include "gpu/tile/amd/sink.h"
#include "gpu/tiles_rdna.h"

namespace hipflash {

constexpr rdna::DotTile kTile = {Spec::threads, Spec::tile_keys, Spec::dim_chunk,
                                 Spec::value_chunk};
constexpr rdna::DotShared kAt = rdna::dot_shared(kElementBytes, kTile);
constexpr int kThreads = kTile.threads, kQueries = rdna::dot_queries(kTile);
constexpr int kKeys = kTile.tile_keys;
constexpr int kRows = 4;              // queries of a thread
constexpr int kColumns = kKeys / 16;  // keys of a thread: its number in the row, + 16, ...
constexpr int kChunks = rdna::divide_up(Spec::head_dim, kTile.dim_chunk);
constexpr int kValueChunks = rdna::divide_up(Spec::value_head_dim, kTile.value_chunk);
constexpr int kQuads = kTile.value_chunk / 64;  // of a chunk, for one thread

static_assert(kTile.threads % 64 == 0 && kKeys % 16 == 0, "see DotTile");
static_assert(kTile.dim_chunk % 4 == 0 && kTile.value_chunk % 64 == 0, "see DotTile");

// With pages: the addresses of the tile's rows in K and V.
constexpr int kTableAt = rdna::round_up(kAt.bytes, 16);
constexpr int kSharedBytes = Spec::paged ? kTableAt + kKeys * 16 : kAt.bytes;
static_assert(kSharedBytes <= rdna::kSharedLimit, "see DotTile");
static_assert(!Spec::paged || kThreads >= kKeys, "a thread looks up one row");

template <int Value>
struct Int {
  static constexpr int value = Value;
};

using Scores = float[kRows][kColumns];
using Output = float[kRows][kValueChunks][kQuads][4];

// The online softmax of a thread's queries; `total` counts the keys of this thread alone.
struct Softmax {
  float top[kRows];  // largest exponent so far, -inf before any visible key
  float total[kRows];
};

struct Thread {
  int row, column;   // row of sixteen threads in the block, place in the row
  int query[kRows];  // past the end: the last one
  int head[kRows];   // likewise
  KeyRange visible[kRows];
  float slope[kRows];
  float scale, hidden;
};

// Rows of Q in a block.
struct QueryRows {
  const AttentionArgs& args;
  const Place& place;
  HF_MEMBER bool exists(int row) const { return place.first_row + row < rows_of_head(args); }
  HF_MEMBER Address address(int row) const {
    const int query = query_of_row(args, place.first_row + row);
    const int head = head_of_row(args, place.head, place.first_row + row);
    return address_of(args.q) +
           static_cast<Address>((place.batch * args.q_stride.batch + head * args.q_stride.head +
                                 query * args.q_stride.seq) *
                                kElementBytes);
  }
};

// Rows of K (column 0) or V (column 1) in a tile whose addresses are in shared memory.
struct TableRows {
  const char* table;
  int column;
  HF_MEMBER bool exists(int) const { return true; }
  HF_MEMBER Address address(int row) const {
    return reinterpret_cast<const Address*>(table)[2 * row + column];
  }
};

HF_DEVICE const char* head_rows(const void* base, const RowStrides& stride, int batch, int head) {
  return static_cast<const char*>(base) +
         (batch * stride.batch + head * stride.head) * kElementBytes;
}

HF_DEVICE void multiply_keys(Scores& s, const char* shared, const Thread& at) {
  HF_UNROLL_BY_2
  for (int d = 0; d < kTile.dim_chunk / 4; d++) {
    Quad q[kRows], k[kColumns];
    HF_UNROLL
    for (int m = 0; m < kRows; m++) {
      q[m] = *reinterpret_cast<const Quad*>(shared + kAt.q + (at.row * kRows + m) * kAt.q_row +
                                            d * 4 * kElementBytes);
    }
    HF_UNROLL
    for (int n = 0; n < kColumns; n++) {
      k[n] = *reinterpret_cast<const Quad*>(shared + kAt.kv + (at.column + 16 * n) * kAt.q_row +
                                            d * 4 * kElementBytes);
    }
    HF_UNROLL
    for (int m = 0; m < kRows; m++) {
      HF_UNROLL
      for (int n = 0; n < kColumns; n++) s[m][n] = dot(q[m], k[n], s[m][n]);
    }
  }
}

HF_DEVICE void modify_and_mask(Scores& s, const AttentionArgs& args, const Place& place,
                               const Thread& at, int first_key) {
  HF_UNROLL
  for (int m = 0; m < kRows; m++) {
    HF_UNROLL
    for (int n = 0; n < kColumns; n++) {
      const int key = first_key + at.column + 16 * n;
      float score = s[m][n];
      if constexpr (kScoreModified) {
        const float distance = static_cast<float>(at.query[m] + args.alibi_diagonal - key);
        score = modify_score<float>(args, score, at.slope[m], distance);
      }
      float cell[1] = {score};
      if constexpr (Spec::bias) {
        add_bias<true>(cell, args, place.batch, at.head[m], at.query[m], key);
      }
      if constexpr (Spec::mask) {
        apply_mask<true>(cell, args, place.batch, at.head[m], at.query[m], key, at.hidden);
      }
      s[m][n] = sees(at.visible[m], key) ? cell[0] : at.hidden;
    }
  }
}

// Turns scores into probabilities relative to the new row maxima, and scales what was summed up.
HF_DEVICE void softmax_step(Scores& s, Softmax& softmax, Output& o, const Thread& at) {
  HF_UNROLL
  for (int m = 0; m < kRows; m++) {
    float top = softmax.top[m];
    HF_UNROLL
    for (int n = 0; n < kColumns; n++) top = hf_max(top, s[m][n] * at.scale);
    top = row_max(top);
    const float reference = top == -kInfinity ? 0.0f : top;
    const float shrink = hf_exp2(softmax.top[m] - reference);
    softmax.top[m] = top;
    softmax.total[m] *= shrink;
    HF_UNROLL
    for (int n = 0; n < kColumns; n++) {
      s[m][n] = hf_exp2(hf_fma(s[m][n], at.scale, -reference));
      softmax.total[m] += s[m][n];
    }
    HF_UNROLL
    for (int c = 0; c < kValueChunks; c++) {
      HF_UNROLL
      for (int n = 0; n < kQuads; n++) {
        HF_UNROLL
        for (int e = 0; e < 4; e++) o[m][c][n][e] *= shrink;
      }
    }
  }
}

HF_DEVICE void store_probabilities(char* shared, const Scores& p, const Thread& at) {
  HF_UNROLL
  for (int m = 0; m < kRows; m++) {
    HF_UNROLL
    for (int n = 0; n < kColumns; n++) {
      *reinterpret_cast<float*>(shared + kAt.p + (at.row * kRows + m) * kAt.p_row +
                                (at.column + 16 * n) * 4) = p[m][n];
    }
  }
}

HF_DEVICE void multiply_values(Output& o, int chunk, const char* shared, const Thread& at) {
  HF_NO_UNROLL
  for (int j = 0; j < kKeys; j += 4) {
    FloatQuad p[kRows];
    HF_UNROLL
    for (int m = 0; m < kRows; m++) {
      p[m] = *reinterpret_cast<const FloatQuad*>(shared + kAt.p + (at.row * kRows + m) * kAt.p_row +
                                                 j * 4);
    }
    HF_UNROLL
    for (int i = 0; i < 4; i++) {
      // A key that a mask or bias hides may hold anything, NaN too: 0 * NaN must not reach the
      // output.
      bool seen = true;
      if constexpr (Spec::mask || Spec::bias) {
        seen = p[0][i] != 0.0f || p[1][i] != 0.0f || p[2][i] != 0.0f || p[3][i] != 0.0f;
      }
      HF_UNROLL
      for (int n = 0; n < kQuads; n++) {
        const Quad v = *reinterpret_cast<const Quad*>(shared + kAt.kv + (j + i) * kAt.v_row +
                                                      (at.column + 16 * n) * 4 * kElementBytes);
        HF_UNROLL
        for (int e = 0; e < 4; e++) {
          const float value = seen ? element(v, e) : 0.0f;
          HF_UNROLL
          for (int m = 0; m < kRows; m++) {
            o[m][chunk][n][e] = hf_fma(p[m][i], value, o[m][chunk][n][e]);
          }
        }
      }
    }
  }
}

// Divides by the row sums and writes output and LSE, or this split's part of both.
HF_DEVICE void finish(const AttentionArgs& args, const Place& place, const Thread& at, int fault,
                      const Softmax& softmax, const Output& o) {
  HF_UNROLL
  for (int m = 0; m < kRows; m++) {
    const int row = place.first_row + at.row * kRows + m;
    const float total = row_sum(softmax.total[m]);
    float inverse = total == 0.0f ? 0.0f : 1.0f / total;  // saw nothing: 0; NaN stays
    float lse = total == 0.0f ? -kInfinity : (hf_log2(total) + softmax.top[m]) * kLn2;
    if (row >= rows_of_head(args)) continue;
    if constexpr (Spec::sinks || Spec::ragged) {
      const SinkResult result = finished_row(args, place, row, lse, fault);
      inverse *= result.factor;
      lse = result.lse;
    }
    const RowTarget to = row_target(args, place, row);
    HF_UNROLL
    for (int c = 0; c < kValueChunks; c++) {
      HF_UNROLL
      for (int n = 0; n < kQuads; n++) {
        HF_UNROLL
        for (int e = 0; e < 4; e++) {
          const int dim = c * kTile.value_chunk + (at.column + 16 * n) * 4 + e;
          if (dim >= Spec::value_head_dim) continue;
          const float x = o[m][c][n][e] * inverse;
          if (writes_parts(args)) {
            args.partial_out[to.cell * Spec::value_head_dim + dim] = x;
          } else {
            store_element(args.out, to.out + dim, x);
          }
        }
      }
    }
    if (at.column == 0) store_lse(args, to, lse);
  }
}

// A block's rows, for a call with one sequence of each batch index. `fault`: the sequence's numbers
// cannot be right.
HF_DEVICE void attend(const AttentionArgs& args, const Place& place, int fault) {
  HF_SHARED(shared, kSharedBytes);
  const KeyRange seen = block_keys<kQueries, kKeys>(args, place).seen;
  const char* k = head_rows(args.k, args.k_stride, place.batch, place.head_kv);
  const char* v = head_rows(args.v, args.v_stride, place.batch, place.head_kv);
  PagedRow paged_key, paged_value;
  if constexpr (Spec::paged) {
    const int first = seen.first + thread_id();
    const int end = thread_id() < kKeys ? seen.end : first;
    paged_key.start(args, args.k, args.k_stride, place.head_kv, first, end);
    paged_value.start(args, args.v, args.v_stride, place.head_kv, first, end);
  }

  Thread at;
  at.row = thread_id() / 16;
  at.column = thread_id() % 16;
  at.scale = nonzero_exponent_scale(args);
  at.hidden = hidden_score(at.scale);
  Softmax softmax;
  Output o;
  HF_UNROLL
  for (int m = 0; m < kRows; m++) {
    const int row = rdna::smaller(place.first_row + at.row * kRows + m, rows_of_head(args) - 1);
    at.query[m] = query_of_row(args, row);
    at.head[m] = head_of_row(args, place.head, row);
    at.slope[m] = alibi_slope(args, place.batch, at.head[m]);
    at.visible[m] = visible_to_row(args, at.query[m], seen);
    softmax.top[m] = -kInfinity;
    softmax.total[m] = 0.0f;
    HF_UNROLL
    for (int c = 0; c < kValueChunks; c++) {
      HF_UNROLL
      for (int n = 0; n < kQuads; n++) {
        HF_UNROLL
        for (int e = 0; e < 4; e++) o[m][c][n][e] = 0.0f;
      }
    }
  }

  for (int key = seen.first; key < seen.end; key += kKeys) {
    if constexpr (Spec::paged) {  // nobody reads the table any more
      const Address of_key = paged_key.next(kKeys), of_value = paged_value.next(kKeys);
      if (thread_id() < kKeys) {
        Address* const table = reinterpret_cast<Address*>(shared + kTableAt) + 2 * thread_id();
        table[0] = of_key;
        table[1] = of_value;
      }
    }
    const auto load_rows = [&](auto dims, auto chunk_dims, const char* base,
                               const RowStrides& stride, int pitch, int column, int dim) HF_LAMBDA {
      constexpr int kDim = decltype(dims)::value, kDims = decltype(chunk_dims)::value;
      if constexpr (Spec::paged) {
        load_tile<kThreads, kDim, kKeys, kDims>(shared + kAt.kv, pitch,
                                                TableRows{shared + kTableAt, column}, dim);
      } else {
        load_tile<kThreads, kDim, kKeys, kDims>(shared + kAt.kv, pitch,
                                                tile_rows(base, stride, key, seen.end), dim);
      }
    };
    Scores s = {};
    for (int chunk = 0; chunk < kChunks; chunk++) {
      const int dim = chunk * kTile.dim_chunk;
      barrier();  // nobody reads the tile before any more
      if (kChunks > 1 || key == seen.first) {
        load_tile<kThreads, Spec::head_dim, kQueries, kTile.dim_chunk>(shared + kAt.q, kAt.q_row,
                                                                       QueryRows{args, place}, dim);
      }
      load_rows(Int<Spec::head_dim>(), Int<kTile.dim_chunk>(), k, args.k_stride, kAt.q_row, 0, dim);
      barrier();
      multiply_keys(s, shared, at);
    }
    modify_and_mask(s, args, place, at, key);
    softmax_step(s, softmax, o, at);
    store_probabilities(shared, s, at);
    HF_UNROLL
    for (int chunk = 0; chunk < kValueChunks; chunk++) {
      barrier();
      load_rows(Int<Spec::value_head_dim>(), Int<kTile.value_chunk>(), v, args.v_stride, kAt.v_row,
                1, chunk * kTile.value_chunk);
      barrier();
      multiply_values(o, chunk, shared, at);
    }
  }
  finish(args, place, at, fault, softmax, o);
}

}  // namespace hipflash

HF_KERNEL HF_THREADS(hipflash::kThreads) void attention_forward(
    const hipflash::AttentionArgs args) {
  using namespace hipflash;
  const auto attend_block = [](const AttentionArgs& one, const Place& place, int fault)
                                HF_LAMBDA { attend(one, place, fault); };
  for_block_of_call<kQueries, 1>(args, attend_block);
}

HF_KERNEL HF_THREADS(hipflash::rdna::kMergeThreads) void attention_merge(
    const hipflash::AttentionArgs args) {
  hipflash::merge_splits(args);
}
