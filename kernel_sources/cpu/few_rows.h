// The way of chunks with only a few rows (decoding): K and V are read once, in place. Packing them
// would cost more than the products.
#pragma once

#include "cpu/pack.h"

namespace hipflash {

constexpr int kKeysAtOnce = 8;  // keys of V per step: the output is loaded and stored once in it

HF_DEVICE Vec load_at_most(const Element* p, int elements) {
  return elements >= kLanes ? load(p) : load_first(p, elements);
}

// Queries as floats, kCpuFewRows rows padded with zeros to whole vectors; rows that do not exist are
// zeros.
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

template <int Level>
HF_DEVICE void prefetch_row(const Element* row, int elements) {
  constexpr int kLine = 64 / sizeof(Element);
  for (int i = 0; i < elements; i += kLine) __builtin_prefetch(row + i, 0, Level);
}

// Asks for the rows that follow those of a step of `Keys` keys. Rows far apart are not what the
// processor expects: they are asked for long before, into the second-level cache. Of rows that
// follow one another it fetches most by itself: those of two-byte elements, which are sooner done
// with, are asked for a little ahead.
template <int Keys>
HF_DEVICE void prefetch_rows(const KeyRows& rows, int key, int listed, int dim) {
  constexpr int kFirstLevel = 3, kSecondLevel = 2;
  if (Spec::paged || rows.stride > 2 * dim || rows.stride < 0) {
    if (key + kMostKeysAhead + Keys > listed) return;
    HF_UNROLL for (int n = 0; n < Keys; ++n) {
      prefetch_row<kSecondLevel>(rows[key + n + kMostKeysAhead], dim);
    }
  } else if constexpr (sizeof(Element) == 2) {
    const int ahead = min_int(max_int(1024 / dim, 1), kMostKeysAhead);  // 2 KB
    if (key + ahead + Keys > listed) return;
    HF_UNROLL for (int n = 0; n < Keys; ++n) prefetch_row<kFirstLevel>(rows[key + n + ahead], dim);
  }
}

// scores[row][key] = q . k for `keys` rows of K in place, of which `listed` are known and worth
// asking for ahead. There are as many sums as lanes, so that they
// are reduced together.
template <int Rows>
HF_DEVICE void few_rows_scores(const AttentionArgs& args, const KeyRows& rows, int listed,
                               const float* queries, int keys, float* scores) {
  constexpr int kKeys = kLanes / Rows;
  const int dim = head_dim(args), stride = round_up(dim, kLanes);
  for (int key = 0; key < keys; key += kKeys) {
    const Element* k[kKeys];
    HF_UNROLL for (int n = 0; n < kKeys; ++n) {
      k[n] = key + n < keys ? rows[key + n] : kZeroRow;
    }
    prefetch_rows<kKeys>(rows, key, listed, dim);
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
      __builtin_memcpy(scores + row * Spec::tile_keys + key, products + row * kKeys,
                       kKeys * sizeof(float));
    }
  }
}

// output[row] = output[row] * rescale[row] + sum over keys of probability * value. A key whose
// probabilities are all 0 is not read: nobody may see it.
template <int Rows>
HF_DEVICE void few_rows_output(const AttentionArgs& args, const KeyRows& rows, int listed,
                               const float* scores, int keys, const float* rescale, float* output,
                               int output_stride) {
  const int dim = value_head_dim(args);
  HF_UNROLL for (int row = 0; row < Rows; ++row) {
    for (int i = 0; i < dim; i += kLanes) {
      float* out = output + row * output_stride + i;
      store(out, load(out) * rescale[row]);
    }
  }
  for (int key = 0; key < keys; key += kKeysAtOnce) {
    const Element* v[kKeysAtOnce];
    float probability[Rows][kKeysAtOnce];
    HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
      unsigned used = 0;
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        const float p =
            key + n < keys ? probability_at(scores + row * Spec::tile_keys, key + n) : 0.0f;
        probability[row][n] = p;
        used |= float_bits(p);
      }
      v[n] = used ? rows[key + n] : kZeroRow;
    }
    prefetch_rows<kKeysAtOnce>(rows, key, listed, dim);
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
