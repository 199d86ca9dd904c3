// The softmax's work on one row of scores: modify, hide, exponentiate.
//
// Scores lie as floats in rows of tile_keys; columns are keys counted from the key block's first.
#pragma once

#include "cpu/chunk.h"

namespace hipflash {

// Of rows: the running maximum (an exponent of two, in units of log2), sums and more.
struct RowStates {
  float* max;
  float* minus_max;         // what exponents relative to it start from
  float* rescale;           // what the output so far must be multiplied by before the next product
  float* lane_sums;         // of probabilities, kLanes of each row
  float* lane_sums_before;  // the same without the block of keys in work
};

// Columns first <= column < end of the row keep their scores; the others, from `from` to `to`, see
// nothing. `from` and `to` are multiples of kLanes.
HF_DEVICE void hide_outside(float* scores, int first, int end, int from, int to) {
  const Vec hidden = broadcast(-kInfinity);
  const auto hide = [&](int column) {
    const int low = min_int(max_int(first - column, 0), kLanes);
    const int high = min_int(max_int(end - column, 0), kLanes);
    store(scores + column, keep_lanes(load(scores + column), low, max_int(low, high), hidden));
  };
  const int whole_from = min_int(max_int(round_up(max_int(first, 0), kLanes), from), to);
  const int whole_to = max_int(min_int(max_int(end, 0) / kLanes * kLanes, to), whole_from);
  for (int column = from; column < whole_from; column += kLanes) hide(column);
  for (int column = whole_to; column < to; column += kLanes) hide(column);
}

// kLanes cells along the keys, of which `count` exist; the others read as 0.
template <class T>
HF_DEVICE Vec load_cells(const T* cells, long long stride, int count) {
  if (stride == 1) return count >= kLanes ? load(cells) : load_first(cells, count);
  if (stride == 0) return broadcast(to_float(cells[0]));
  float gathered[kLanes] = {};
  for (int i = 0; i < min_int(count, kLanes); ++i) gathered[i] = to_float(cells[i * stride]);
  return load(gathered);
}

template <class T>
HF_DEVICE Vec load_bias(const AttentionArgs& args, long long offset, int count) {
  return load_cells(static_cast<const T*>(args.bias) + offset, args.bias_stride.key, count);
}

// Turns raw products into scores: scale, softcap, ALiBi, bias. A bias of -infinity hides the key
// whatever its product is.
HF_DEVICE void modify_row(const AttentionArgs& args, const Chunk& chunk, int head, int query,
                          int first_key, int from, int to, int keys, float* scores) {
  const float slope = alibi_slope(args, chunk.batch, head);
  float ramp[kLanes];
  for (int i = 0; i < kLanes; ++i) ramp[i] = static_cast<float>(-i);
  const Vec lanes = load(ramp);
  // Distances can pass 2^24, so the sum is taken as integers before it becomes a float.
  const long long nearest = static_cast<long long>(query) + args.alibi_diagonal - first_key;
  for (int column = from; column < to; column += kLanes) {
    const Vec distance = lanes + static_cast<float>(nearest - column);
    Vec score = modify_score(args, load(scores + column), slope, distance);
    if constexpr (Spec::bias) {
      if (args.bias && column < keys) {
        const long long offset =
            cell_offset(args.bias_stride, chunk, head, query, first_key + column);
        const int count = keys - column;
        const Vec bias = args.bias_type == ElementType::f32 ? load_bias<float>(args, offset, count)
                         : args.bias_type == ElementType::f16
                             ? load_bias<F16>(args, offset, count)
                             : load_bias<Bf16>(args, offset, count);
        const Vec hidden = broadcast(-kInfinity);
        score = bias == hidden ? hidden : score + bias;
      }
    }
    store(scores + column, score);
  }
}

// Hides what the bool mask hides, in columns that exist.
HF_DEVICE void apply_bool_mask(const AttentionArgs& args, const Chunk& chunk, int head, int query,
                               int first_key, int from, int keys, float* scores) {
  const unsigned char* mask =
      args.mask + cell_offset(args.mask_stride, chunk, head, query, first_key);
  const long long stride = args.mask_stride.key;
  for (int column = from; column < keys; ++column) {
    scores[column] = mask[column * stride] ? scores[column] : -kInfinity;
  }
}

// A sum of a few probabilities from which on a row gets another base: far from where all of them
// would overflow.
constexpr float kLargeProbability = 256.0f;

// Whether packed queries carry the factor that makes their products exponents of two. Pairs of bf16
// would lose bits, and modifiers want products as they are.
constexpr bool kQueriesCarryFactor = kUnitElements == 1 && !kScoreModified;

// The usual case of the softmax: Vectors vectors of scores of a register block of rows become
// probabilities, and their lanes are added to `sums`. Scores start from minus the row's maximum if
// queries carry the factor. False if some probability is too large for the maximum that its row
// had; then the results are of no use.
template <int Vectors>
HF_DEVICE bool exponentiate_block(const float* scores, float factor, const float* minus_max,
                                  Unit* probabilities, float* sums) {
  Vec largest = broadcast(0.0f);
  for (int row = 0; row < Spec::micro_rows; ++row) {
    Vec p[Vectors];
    HF_UNROLL for (int v = 0; v < Vectors; ++v) {
      Vec exponent = load(scores + row * Spec::tile_keys + v * kLanes);
      if constexpr (!kQueriesCarryFactor) {
        exponent = fma(exponent, broadcast(factor), broadcast(minus_max[row]));
      }
      p[v] = exp2(exponent);
    }
    Vec sum = p[0];
    HF_UNROLL for (int v = 1; v < Vectors; ++v) sum = sum + p[v];
    largest = max(sum, largest);  // leaves out what is NaN
    store(sums + row * kLanes, load(sums + row * kLanes) + sum);
    store_probabilities<Vectors>(probabilities + row * Spec::tile_keys, p);
  }
  return !any_above(largest, kLargeProbability);
}

// The largest of a row's scores in columns `from` .. `to`, multiples of two vectors.
HF_DEVICE float max_of_row(const float* scores, int from, int to) {
  Vec max0 = load(scores + from), max1 = load(scores + from + kLanes);
  HF_UNROLL_BY_2
  for (int column = from + 2 * kLanes; column < to; column += 2 * kLanes) {
    max0 = max(max0, load(scores + column));
    max1 = max(max1, load(scores + column + kLanes));
  }
  return reduce_max(max(max0, max1));
}

// A row's scores become probabilities 2^(score * scale - offset), as units that the second product
// reads. Returns their sum, in lanes.
HF_DEVICE Vec exponentiate_row(float* scores, int from, int to, Vec scale, float offset) {
  const Vec minus = broadcast(-offset);
  Vec sum0 = broadcast(0.0f), sum1 = sum0;
  Unit* units = reinterpret_cast<Unit*>(scores);
  HF_UNROLL_BY_2
  for (int column = from; column < to; column += 2 * kLanes) {
    const Vec p0 = exp2(fma(load(scores + column), scale, minus));
    const Vec p1 = exp2(fma(load(scores + column + kLanes), scale, minus));
    sum0 = sum0 + p0;
    sum1 = sum1 + p1;
    const Vec p[] = {p0, p1};
    store_probabilities<2>(units + column / kUnitElements, p);
  }
  return sum0 + sum1;
}

// Scores of `rows` <= kLanes rows become probabilities relative to the rows' running maxima, which
// are updated with the sums. Scores are in 1 / factor of exponents of two, factor > 0. What is per
// row is done for all rows at once, and no row waits for the one before it.
HF_DEVICE void softmax_rows(float* scores, int rows, int from, int to, float factor,
                            RowStates state) {
  float row_value[kLanes] = {};
  for (int row = 0; row < rows; ++row) {
    row_value[row] = max_of_row(scores + row * Spec::tile_keys, from, to);
  }
  const Vec old_max = load_first(state.max, rows);
  const Vec new_max = max(old_max, load(row_value) * factor);
  const Vec hidden = broadcast(-kInfinity);
  const Vec base = new_max == hidden ? broadcast(0.0f) : new_max;  // of a row that saw nothing yet
  // Before a row's first key there is nothing to rescale.
  const Vec rescale = old_max == hidden ? broadcast(1.0f) : exp2(old_max - base);
  store_first(state.max, new_max, rows);
  store_first(state.minus_max, -new_max, rows);
  store_first(state.rescale, rescale, rows);
  float offset[kLanes];
  store(offset, base);
  const Vec scale = broadcast(factor);
  for (int row = 0; row < rows; ++row) {
    const Vec sum = exponentiate_row(scores + row * Spec::tile_keys, from, to, scale, offset[row]);
    const Vec before = load(state.lane_sums_before + row * kLanes);
    store(state.lane_sums + row * kLanes, fma(before, broadcast(state.rescale[row]), sum));
  }
}

}  // namespace hipflash
