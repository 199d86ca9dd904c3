// What happens to a matrix-product result between the two products, and on its way out.
//
// mma.sync and wgmma leave a tile of scores in the same places: of a 16-row tile, register
// 4n + 2h + e of lane L is row 8h + L/4, column 8n + 2(L%4) + e. So one text serves both.
#pragma once

namespace hipflash {

// The two rows of a 16-row tile that a lane holds a part of.
struct LaneRows {
  int query[2];  // position in the sequence; may lie beyond the last query
  int head[2];
};

// The reference of a row is what its exponents are taken relative to, in base 2. It is at least the
// row's largest exponent so far minus kSlack: it moves only when it has to, so in most tiles
// neither lanes talk to each other nor are outputs rescaled. 2^8 is far from the limit of f16.
constexpr float kSlack = 8.0f;

// Softmax state of the two rows. `sum` is this lane's part of the row sum.
struct SoftmaxRows {
  float reference[2];
  float sum[2];

  HF_DEVICE void clear() {
    reference[0] = reference[1] = -kInfinity;
    sum[0] = sum[1] = 0.0f;
  }
};

constexpr bool kElementwise = Spec::bias || Spec::mask;  // what a query sees is not an interval

HF_DEVICE float load_bias(const AttentionArgs& args, long long index) {
  if (args.bias_type == ElementType::f32) return ((const float*)args.bias)[index];
  const unsigned short x = ((const unsigned short*)args.bias)[index];
  return args.bias_type == ElementType::f16 ? half_to_float(x) : bfloat_to_float(x);
}

// Bias and bool mask of one score. A bias of -inf hides the key, also from a score of NaN.
HF_DEVICE void hide_elementwise(const AttentionArgs& args, int batch, int head, int query, int key,
                                bool& seen, float& score) {
  if constexpr (Spec::bias) {
    if (args.bias && seen) {
      const float b =
          load_bias(args, batch * args.bias_stride.batch + head * args.bias_stride.head +
                              query * args.bias_stride.query + key * args.bias_stride.key);
      if (b == -kInfinity) seen = false;
      score += b;
    }
  }
  if constexpr (Spec::mask) {
    if (args.mask && seen) {
      seen = args.mask[batch * args.mask_stride.batch + head * args.mask_stride.head +
                       query * args.mask_stride.query + key * args.mask_stride.key] != 0;
    }
  }
}

// Turns raw products into what the softmax takes: modified, and -inf where a row does not see a
// key. `key` is the position of the lane's first column. Unmasked tiles lie inside what all rows
// see.
template <bool kMasked, int N>
HF_DEVICE void modify_scores(const AttentionArgs& args, float (&s)[N], const LaneRows& rows,
                             int batch, int key) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const int i = rows.query[h], head = rows.head[h];
    const KeyRange range = visible_keys(args, i);
    const int first = range.first - key, end = range.end - key;
    const float slope = alibi_slope(args, batch, head);
    const bool inside = !kElementwise || i < args.seq_q;
    HF_UNROLL
    for (int n = 0; n < N / 4; n++) {
      HF_UNROLL
      for (int e = 0; e < 2; e++) {
        const int column = 8 * n + e;
        float& score = s[4 * n + 2 * h + e];
        if constexpr (kScoreModified) {
          score = modify_score(args, score, slope, (float)(i + args.alibi_diagonal - key - column));
        }
        if constexpr (kMasked) {
          bool seen = column < end && inside;
          if constexpr (Spec::window_left) seen = seen && column >= first;
          hide_elementwise(args, batch, head, i, key + column, seen, score);
          score = seen ? score : -kInfinity;
        }
      }
    }
  }
}

// Bit 2n + e: some row of the warp sees key 8n + 2(lane%4) + e of the tile.
template <int kTiles, int N>
HF_DEVICE unsigned keys_in_sight(const float (&s)[kTiles][N]) {
  static_assert(!kElementwise || N <= 64);
  unsigned seen = 0;
  HF_UNROLL
  for (int i = 0; i < kTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < N / 4; n++) {
      HF_UNROLL
      for (int e = 0; e < 4; e++) {
        if (!(s[i][4 * n + e] == -kInfinity)) seen |= 1u << (2 * n + e % 2);
      }
    }
  }
  HF_UNROLL
  for (int x = 4; x < 32; x *= 2) seen |= __shfl_xor_sync(~0u, seen, x);
  return seen;
}

// The largest exponent of each row in this lane's part of the tile.
template <int N>
HF_DEVICE void row_max(const float (&s)[N], float scale, float (&largest)[2]) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    float even = fmaxf(s[2 * h], s[2 * h + 1]), odd = fmaxf(s[4 + 2 * h], s[5 + 2 * h]);
    HF_UNROLL
    for (int n = 2; n < N / 4; n += 2) {
      even = fmaxf(even, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
      odd = fmaxf(odd, fmaxf(s[4 * n + 4 + 2 * h], s[4 * n + 5 + 2 * h]));
    }
    largest[h] = fmaxf(even, odd) * scale;
  }
}

// True in all lanes if the reference of some row of the warp must move.
template <int kTiles>
HF_DEVICE bool must_move(const SoftmaxRows (&rows)[kTiles], const float (&largest)[kTiles][2]) {
  bool grown = false;
  HF_UNROLL
  for (int i = 0; i < kTiles; i++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) grown |= largest[i][h] > rows[i].reference[h] + kSlack;
  }
  return __any_sync(~0u, grown);
}

// Moves the references of a tile's rows. `factor` is what sums and outputs were scaled by too
// little.
HF_DEVICE void move_reference(SoftmaxRows& rows, const float (&largest)[2], float (&factor)[2]) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const float before = rows.reference[h];
    const float now = fmaxf(before, quad_max(largest[h]));
    factor[h] = before == -kInfinity ? 0.0f : exp2_fast(before - now);
    rows.reference[h] = now;
    rows.sum[h] *= factor[h];
  }
}

template <int N>
HF_DEVICE void scale_rows(float (&o)[N], const float (&factor)[2]) {
  HF_UNROLL
  for (int n = 0; n < N / 4; n++) {
    HF_UNROLL
    for (int e = 0; e < 4; e++) o[4 * n + e] *= factor[e / 2];
  }
}

// Moves the references of the warp's rows where a score of this tile asks for it.
template <int kTiles, int kOut, int N>
HF_DEVICE void update_references(float (&out)[kTiles][kOut], SoftmaxRows (&softmax)[kTiles],
                                 const float (&s)[kTiles][N], float scale) {
  float largest[kTiles][2];
  HF_UNROLL
  for (int i = 0; i < kTiles; i++) row_max(s[i], scale, largest[i]);
  if (must_move(softmax, largest)) {
    HF_UNROLL
    for (int i = 0; i < kTiles; i++) {
      float factor[2];
      move_reference(softmax[i], largest[i], factor);
      scale_rows(out[i], factor);
    }
  }
}

// Subtracting -inf from -inf would give NaN for rows that have not seen a key yet.
template <bool kMasked>
HF_DEVICE float finite_reference(float reference) {
  return kMasked && reference == -kInfinity ? 0.0f : reference;
}

// 1 / row sum, the sum being that of all lanes; and the log-sum-exp in base e. 0 and -inf for a row
// that sees nothing.
HF_DEVICE float inverse_sum(float sum) {
  return sum == 0.0f ? 0.0f : 1.0f / sum;
}
HF_DEVICE float log_sum_exp(float reference, float sum) {
  return sum == 0.0f ? -kInfinity : (reference + log2_fast(sum)) * kLn2;
}

// What a row's accumulators are multiplied by at the end, and its log-sum-exp. `reference` and
// `sum` are the softmax state of the whole row. A sink is one more logit, which has no value.
struct RowResult {
  float factor, lse;
};
HF_DEVICE RowResult result_of_row(float reference, float sum) {
  return {inverse_sum(sum), log_sum_exp(reference, sum)};
}
HF_DEVICE RowResult join_sink(float reference, float sum, float sink) {
  const float exponent = sink * kLog2e;
  const float larger = fmaxf(reference, exponent);
  if (sum == 0.0f) return {0.0f, sink};  // nothing else: not rounded
  const float scale = exp2_fast(reference - larger);
  const float total = fmaf(sum, scale, exp2_fast(exponent - larger));
  return {scale * inverse_sum(total), log_sum_exp(larger, total)};
}

// Stores 8 * kTiles columns of one 16-row tile, row h in `row[h]` (null: no such row), as whole
// 16-byte pieces: the four lanes of a row transpose 4 x 4 words among themselves.
// `columns` is how many of the row exist.
template <int N>
HF_DEVICE void store_rows_aligned(const float (&o)[N], const float (&factor)[2],
                                  char* const (&row)[2], int columns) {
  constexpr int kTiles = N / 4;
  const int lane = threadIdx.x & 3;
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    HF_UNROLL
    for (int n = 0; n < kTiles; n += 4) {
      unsigned w[4] = {0, 0, 0, 0};
      HF_UNROLL
      for (int i = 0; i < 4; i++) {
        if (n + i < kTiles) {
          w[i] = pack(o[4 * (n + i) % N + 2 * h] * factor[h],
                      o[4 * (n + i) % N + 2 * h + 1] * factor[h]);
        }
      }
      HF_UNROLL
      for (int i = 0; i < 4; i += 2) {
        const unsigned other = __shfl_xor_sync(~0u, lane & 1 ? w[i] : w[i + 1], 1);
        if (lane & 1)
          w[i] = other;
        else
          w[i + 1] = other;
      }
      HF_UNROLL
      for (int i = 0; i < 2; i++) {
        const unsigned other = __shfl_xor_sync(~0u, lane & 2 ? w[i] : w[i + 2], 2);
        if (lane & 2)
          w[i] = other;
        else
          w[i + 2] = other;
      }
      if (row[h] && 8 * (n + lane) + 8 <= columns) {
        *(uint4*)(row[h] + 16 * (n + lane)) = make_uint4(w[0], w[1], w[2], w[3]);
      } else if (row[h]) {
        HF_UNROLL
        for (int e = 0; e < 8; e++) {
          const int column = 8 * (n + lane) + e;
          if (column < columns)
            ((unsigned short*)row[h])[column] = (unsigned short)(w[e / 2] >> (16 * (e % 2)));
        }
      }
    }
  }
}

// The same for rows that start anywhere, element by element.
template <int N>
HF_DEVICE void store_rows_unaligned(const float (&o)[N], const float (&factor)[2],
                                    char* const (&row)[2], int columns) {
  HF_UNROLL
  for (int n = 0; n < N / 4; n++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int column = 8 * n + 2 * (threadIdx.x & 3);
      const unsigned w = pack(o[4 * n + 2 * h] * factor[h], o[4 * n + 2 * h + 1] * factor[h]);
      if (row[h] && column < columns) ((unsigned short*)row[h])[column] = (unsigned short)w;
      if (row[h] && column + 1 < columns)
        ((unsigned short*)row[h])[column + 1] = (unsigned short)(w >> 16);
    }
  }
}

// The same for partial results: f32, rows of `columns` floats.
template <int N>
HF_DEVICE void store_rows_f32(const float (&o)[N], const float (&factor)[2], float* const (&row)[2],
                              int columns) {
  constexpr bool kPairs = Spec::value_head_dim != 0 && Spec::value_head_dim % 2 == 0;
  HF_UNROLL
  for (int n = 0; n < N / 4; n++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int column = 8 * n + 2 * (threadIdx.x & 3);
      const float2 x = make_float2(o[4 * n + 2 * h] * factor[h], o[4 * n + 2 * h + 1] * factor[h]);
      if (kPairs) {
        if (row[h] && column < columns) *(float2*)(row[h] + column) = x;
      } else {
        if (row[h] && column < columns) row[h][column] = x.x;
        if (row[h] && column + 1 < columns) row[h][column + 1] = x.y;
      }
    }
  }
}

}  // namespace hipflash
