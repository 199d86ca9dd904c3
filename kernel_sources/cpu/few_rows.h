// The way of chunks with only a few rows (decoding): K and V are read once, in place. Packing them
// would cost more than the products.
//
// The time is the memory's. A processor fetches ahead on several streams at once faster than on
// one, so the keys of a step lie apart, one in each of as many equal parts of the block of keys.
#pragma once

#include "cpu/pack.h"

namespace hipflash {

constexpr int kKeysAtOnce = 8;  // keys of V per step: the output is loaded and stored once in it

HF_DEVICE Vec load_at_most(const Element* p, int elements) {
  return elements >= kLanes ? load(p) : load_first(p, elements);
}

// Queries as floats, kCpuFewRows rows padded with zeros to whole vectors; rows that do not exist
// are zeros.
HF_DEVICE void convert_queries(const AttentionArgs& args, const Chunk& chunk, float sign,
                               float* queries) {
  const int dim = head_dim(args), stride = round_up(dim, kLanes);
  for (int row = 0; row < kCpuFewRows; ++row) {
    const Element* q = row < chunk.rows ? row_of(args.q, args.q_stride, chunk.batch,
                                                 query_of(chunk, row), head_of(chunk, row))
                                        : kZeroRow;
    for (int i = 0; i < dim; i += kLanes) {
      store(queries + row * stride + i, load_at_most(q + i, dim - i) * sign);
    }
  }
}

constexpr int kSecondLevel = 2, kFirstLevel = 3;  // of the caches, as __builtin_prefetch counts

template <int Level>
HF_DEVICE void prefetch_row(const Element* row, int elements) {
  constexpr int kLine = 64 / sizeof(Element);
  for (int i = 0; i < elements; i += kLine) __builtin_prefetch(row + i, 0, Level);
}

// scores[row][key] = q . k for `keys` rows of K in place. There are as many sums as lanes, so that
// they are reduced together.
template <int Rows>
HF_DEVICE void few_rows_scores(const AttentionArgs& args, const KeyRows& rows, const float* queries,
                               int keys, float* scores) {
  constexpr int kKeys = kLanes / Rows;
  const int dim = head_dim(args), stride = round_up(dim, kLanes);
  const int part = (keys + kKeys - 1) / kKeys;
  for (int first = 0; first < part; ++first) {
    const Element* k[kKeys];
    HF_UNROLL for (int n = 0; n < kKeys; ++n) {
      const int key = first + n * part;
      k[n] = key < keys ? rows[key] : kZeroRow;
    }
    if (first + 1 < part && part * kKeys == keys) {
      HF_UNROLL for (int n = 0; n < kKeys; ++n) {
        prefetch_row<kFirstLevel>(rows[first + 1 + n * part], dim);
      }
    }
    Vec sum[kLanes];
    HF_UNROLL for (int n = 0; n < kLanes; ++n) sum[n] = broadcast(0.0f);
    const auto step = [&](int i, auto load_key) {
      Vec query[Rows];
      HF_UNROLL for (int row = 0; row < Rows; ++row) query[row] = load(queries + row * stride + i);
      HF_UNROLL for (int n = 0; n < kKeys; ++n) {
        const Vec key_part = load_key(k[n] + i);
        HF_UNROLL for (int row = 0; row < Rows; ++row) {
          sum[row * kKeys + n] = fma(query[row], key_part, sum[row * kKeys + n]);
        }
      }
    };
    int i = 0;
    for (; i + kLanes <= dim; i += kLanes) step(i, [](const Element* p) { return load(p); });
    if (i < dim) step(i, [&](const Element* p) { return load_first(p, dim - i); });
    float products[kLanes];
    store(products, reduce_add_each(sum));
    HF_UNROLL for (int row = 0; row < Rows; ++row) {
      HF_UNROLL for (int n = 0; n < kKeys; ++n) {
        scores[row * Spec::tile_keys + first + n * part] = products[row * kKeys + n];
      }
    }
  }
}

// output[row] = output[row] * rescale[row] + sum over keys of probability * value. A key whose
// probabilities are all 0 is not read: nobody may see it.
template <int Rows>
HF_DEVICE void few_rows_output(const AttentionArgs& args, const KeyRows& rows, const float* scores,
                               int keys, const float* rescale, float* output, int output_stride) {
  const int dim = value_head_dim(args);
  HF_UNROLL for (int row = 0; row < Rows; ++row) {
    for (int i = 0; i < dim; i += kLanes) {
      float* out = output + row * output_stride + i;
      store(out, load(out) * rescale[row]);
    }
  }
  const int part = (keys + kKeysAtOnce - 1) / kKeysAtOnce;
  for (int first = 0; first < part; ++first) {
    const Element* v[kKeysAtOnce];
    float probability[Rows][kKeysAtOnce];
    HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
      const int key = first + n * part;
      unsigned used = 0;
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        const float p = key < keys ? probability_at(scores + row * Spec::tile_keys, key) : 0.0f;
        probability[row][n] = p;
        used |= float_bits(p);
      }
      v[n] = used ? rows[key] : kZeroRow;
    }
    const auto step = [&](int i, auto load_value) {
      Vec value[kKeysAtOnce];
      HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) value[n] = load_value(v[n] + i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        float* out = output + row * output_stride + i;
        Vec even = load(out), odd = broadcast(0.0f);
        HF_UNROLL for (int n = 0; n < kKeysAtOnce; n += 2) {
          even = fma(broadcast(probability[row][n]), value[n], even);
          odd = fma(broadcast(probability[row][n + 1]), value[n + 1], odd);
        }
        store(out, even + odd);
      }
    };
    int i = 0;
    for (; i + kLanes <= dim; i += kLanes) step(i, [](const Element* p) { return load(p); });
    if (i < dim) step(i, [&](const Element* p) { return load_first(p, dim - i); });
  }
}

}  // namespace hipflash
