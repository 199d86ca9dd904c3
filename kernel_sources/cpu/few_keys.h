// The way of a handful of keys against a few rows that may not see all of them, or whose scores are
// modified. Plain ones go through in groups, see cpu/row_groups.h.
#pragma once

#include "cpu/few_rows.h"
#include "cpu/softmax.h"

namespace hipflash {

static_assert(kCpuFewKeys <= kLanes, "the scores of a row are one vector");

// Heads (or what lies in their place) from the one that is computed to the one that is asked for.
// Farther ahead, or only into the second-level cache, brings less.
constexpr int kHeadsAhead = 4;

// f(key) for every key; unrolled where their number is a fact of the kernel.
template <class F>
HF_DEVICE void each_key(int keys, F f) {
  if constexpr (Spec::few_keys > 0) {
    HF_UNROLL for (int key = 0; key < Spec::few_keys; ++key) f(key);
  } else {
    for (int key = 0; key < keys; ++key) f(key);
  }
}

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
  const int keys = Spec::few_keys ? Spec::few_keys : chunk.keys.end - chunk.keys.first;
  const Element* q = row_of(args.q, args.q_stride, chunk.batch, query, head);
  prefetch_row<kFirstLevel>(q + kHeadsAhead * args.q_stride.head, head_dim(args));
  for (int key = 0; key < keys; ++key) {  // in a lambda, GCC would drop it as without effect
    prefetch_row<kFirstLevel>(k_rows[key] + kHeadsAhead * args.k_stride.head, head_dim(args));
    prefetch_row<kFirstLevel>(v_rows[key] + kHeadsAhead * args.v_stride.head, value_head_dim(args));
  }
  const auto score_of = [&](int key) {
    return sign * product_in_place(q, k_rows[key], head_dim(args));
  };
  float scores[kLanes] = {};
  each_key(keys, [&](int key) { scores[key] = score_of(key); });
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
  each_key(keys, [&](int key) { v[key] = float_bits(weight[key]) ? v_rows[key] : kZeroRow; });
  const int dim = value_head_dim(args);
  const auto step = [&](int i, auto load_value) {
    Vec sum = broadcast(0.0f);
    each_key(keys,
             [&](int key) { sum = fma(broadcast(weight[key]), load_value(v[key] + i), sum); });
    store(output + i, sum);
  };
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes) step(i, [](const Element* p) { return load(p); });
  if (i < dim) step(i, [&](const Element* p) { return load_first(p, dim - i); });
}

}  // namespace hipflash
