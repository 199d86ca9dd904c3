// The way of a handful of keys against a few rows: thousands of such problems in one call are their
// memory's time, if nothing is copied, padded or set up for each of them.
#pragma once

#include "cpu/few_rows.h"
#include "cpu/softmax.h"

namespace hipflash {

static_assert(kCpuFewKeys <= kLanes, "the scores of a row are one vector");

// Heads (or what lies in their place) from the one that is computed to the one that is asked for.
constexpr int kHeadsAhead = 16;

HF_DEVICE float product_in_place(const Element* a, const Element* b, int dim) {
  Vec even = broadcast(0.0f), odd = even;
  int i = 0;
  for (; i + 2 * kLanes <= dim; i += 2 * kLanes) {
    even = fma(load(a + i), load(b + i), even);
    odd = fma(load(a + i + kLanes), load(b + i + kLanes), odd);
  }
  for (; i < dim; i += kLanes) {
    even = fma(load_at_most(a + i, dim - i), load_at_most(b + i, dim - i), even);
  }
  return reduce_add(even + odd);
}

// A row against all keys of the chunk: raw output, maximum and sum, as attend_keys() leaves them.
HF_DEVICE void attend_few_keys(const AttentionArgs& args, const Chunk& chunk, const KeyRows& k_rows,
                               const KeyRows& v_rows, int row, float sign, float factor,
                               float* output, float& row_max, float& row_sum) {
  const int query = query_of(chunk, row), head = head_of(chunk, row);
  const int keys = chunk.keys.end - chunk.keys.first;
  const Element* q = row_of(args.q, args.q_stride, chunk.batch, query, head);
  prefetch_row<2>(q + kHeadsAhead * args.q_stride.head, head_dim(args));
  for (int key = 0; key < keys; ++key) {
    prefetch_row<2>(k_rows[key] + kHeadsAhead * args.k_stride.head, head_dim(args));
    prefetch_row<2>(v_rows[key] + kHeadsAhead * args.v_stride.head, value_head_dim(args));
  }
  float scores[kLanes] = {};
  for (int key = 0; key < keys; ++key) {
    scores[key] = sign * product_in_place(q, k_rows[key], head_dim(args));
  }
  if constexpr (kScoreModified) {
    modify_row(args, chunk, head, query, chunk.keys.first, 0, kLanes, keys, scores);
  }
  if constexpr (Spec::mask) {
    if (args.mask) apply_bool_mask(args, chunk, head, query, chunk.keys.first, 0, keys, scores);
  }
  const KeyRange seen = visible_keys(args, query);
  const int low = max_int(seen.first - chunk.keys.first, 0);
  const int high = max_int(min_int(seen.end - chunk.keys.first, keys), low);
  const Vec score = keep_lanes(load(scores), low, high, broadcast(-kInfinity));
  row_max = reduce_max(score) * factor;
  const float base = row_max == -kInfinity ? 0.0f : row_max;
  const Vec probability = exp2(fma(score, broadcast(factor), broadcast(-base)));
  row_sum = reduce_add(probability);

  float weight[kLanes];
  store(weight, probability);
  const Element* v[kCpuFewKeys];  // a key whose probability is 0 is not read: nobody may see it
  for (int key = 0; key < keys; ++key) {
    v[key] = float_bits(weight[key]) ? v_rows[key] : kZeroRow;
  }
  const int dim = value_head_dim(args);
  for (int i = 0; i < dim; i += kLanes) {
    Vec sum = broadcast(0.0f);
    for (int key = 0; key < keys; ++key) {
      sum = fma(broadcast(weight[key]), load_at_most(v[key] + i, dim - i), sum);
    }
    store(output + i, sum);
  }
}

}  // namespace hipflash
