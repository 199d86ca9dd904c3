// The way of chunks with only a few rows (decoding): K and V are read once, in place. Packing them
// would cost more than the products.
#pragma once

#include "cpu/pack.h"

namespace hipflash {

constexpr int kFewRows = 4;     // rows up to which this way is taken
constexpr int kKeysAtOnce = 4;  // keys per step, to have independent sums

HF_DEVICE Vec load_at_most(const Element* p, int elements) {
  return elements >= kLanes ? load(p) : load_first(p, elements);
}

// Queries as floats, kFewRows rows padded with zeros to whole vectors; rows that do not exist are
// zeros.
HF_DEVICE void convert_queries(const AttentionArgs& args, const Chunk& chunk, float sign,
                               float* queries) {
  const int dim = head_dim(args), stride = round_up(dim, kLanes);
  for (int row = 0; row < kFewRows; ++row) {
    const Element* q = row < chunk.rows ? row_of(args.q, args.q_stride, chunk.batch,
                                                 query_of(chunk, row), head_of(chunk, row))
                                        : kZeroRow;
    for (int i = 0; i < dim; i += kLanes) {
      store(queries + row * stride + i, load_at_most(q + i, dim - i) * sign);
    }
  }
}

// scores[row][key] = q . k, straight from the tensor.
template <int Rows>
HF_DEVICE void few_rows_scores(const AttentionArgs& args, const Chunk& chunk, const float* queries,
                               int first_key, int keys, float* scores) {
  const int dim = head_dim(args), stride = round_up(dim, kLanes);
  const Element* base = row_of(args.k, args.k_stride, chunk.batch, first_key, chunk.head_kv);
  for (int key = 0; key < keys; key += kKeysAtOnce) {
    const Element* k[kKeysAtOnce];
    HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
      k[n] = key + n < keys ? base + (key + n) * args.k_stride.seq : kZeroRow;
    }
    Vec sum[Rows][kKeysAtOnce];
    HF_UNROLL for (int row = 0; row < Rows; ++row) {
      HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) sum[row][n] = broadcast(0.0f);
    }
    const auto step = [&](int i, auto load_key) {
      Vec key_part[kKeysAtOnce];
      HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) key_part[n] = load_key(k[n] + i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        const Vec query = load(queries + row * stride + i);
        HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
          sum[row][n] = fma(query, key_part[n], sum[row][n]);
        }
      }
    };
    int i = 0;
    for (; i + kLanes <= dim; i += kLanes) step(i, [](const Element* p) { return load(p); });
    if (i < dim) step(i, [&](const Element* p) { return load_first(p, dim - i); });
    HF_UNROLL for (int row = 0; row < Rows; ++row) {
      HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
        scores[row * Spec::tile_keys + key + n] = reduce_add(sum[row][n]);
      }
    }
  }
}

// output[row] = output[row] * rescale[row] + sum over keys of probability * value. A key whose
// probabilities are all 0 is not read: nobody may see it.
template <int Rows>
HF_DEVICE void few_rows_output(const AttentionArgs& args, const Chunk& chunk, const float* scores,
                               int first_key, int keys, const float* rescale, float* output,
                               int output_stride) {
  const int dim = value_head_dim(args);
  const Element* base = row_of(args.v, args.v_stride, chunk.batch, first_key, chunk.head_kv);
  HF_UNROLL for (int row = 0; row < Rows; ++row) {
    for (int i = 0; i < dim; i += kLanes) {
      float* out = output + row * output_stride + i;
      store(out, load(out) * rescale[row]);
    }
  }
  for (int key = 0; key < keys; key += kKeysAtOnce) {
    const Element* v[kKeysAtOnce];
    Vec probability[Rows][kKeysAtOnce];
    HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
      bool used = false;
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        const float p =
            key + n < keys ? probability_at(scores + row * Spec::tile_keys, key + n) : 0.0f;
        probability[row][n] = broadcast(p);
        used |= p != 0.0f;
      }
      v[n] = used ? base + (key + n) * args.v_stride.seq : kZeroRow;
    }
    const auto step = [&](int i, auto load_value) {
      Vec value[kKeysAtOnce];
      HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) value[n] = load_value(v[n] + i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        float* out = output + row * output_stride + i;
        Vec sum = load(out);
        HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
          sum = fma(probability[row][n], value[n], sum);
        }
        store(out, sum);
      }
    };
    int i = 0;
    for (; i + kLanes <= dim; i += kLanes) step(i, [](const Element* p) { return load(p); });
    if (i < dim) step(i, [&](const Element* p) { return load_first(p, dim - i); });
  }
}

}  // namespace hipflash
