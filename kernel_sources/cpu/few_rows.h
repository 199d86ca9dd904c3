// The way of chunks with only a few rows (decoding): K and V are read once, in place. Packing them
// would cost more than the products.
//
// The time is the memory's. A processor fetches ahead on several streams at once faster than on
// one, so the keys of a step lie apart, one in each of as many equal parts of the block of keys.
// Heads that lie side by side take turns key by key.
#pragma once

#include "cpu/pack.h"

namespace hipflash {

constexpr int kKeysAtOnce = 8;  // keys of V per step: the output is loaded and stored once in it

// Bytes from the row of a stream that is read to the one that is asked for meanwhile.
constexpr int kBytesAhead = 1024;

HF_DEVICE Vec load_at_most(const Element* p, int elements) {
  return elements >= kLanes ? load(p) : load_first(p, elements);
}

// Queries as floats in the order of pairs, kCpuFewRows rows padded with zeros to whole vectors;
// rows that do not exist are zeros.
HF_DEVICE void convert_queries(const AttentionArgs& args, const Chunk& chunk, float sign,
                               float* queries) {
  const int dim = head_dim(args), stride = round_up(dim, kLanes);
  for (int row = 0; row < kCpuFewRows; ++row) {
    const Element* q = row < chunk.rows ? row_of(args.q, args.q_stride, chunk.batch,
                                                 query_of(chunk, row), head_of(chunk, row))
                                        : kZeroRow;
    float* to = queries + row * stride;
    int i = 0;
    for (; i + kPairLanes <= dim; i += kPairLanes) {
      const VecPair query = load_pair(q + i);
      store_pair<false>(to + i, {query.first * sign, query.second * sign});
    }
    for (; i < dim; i += kLanes) store(to + i, load_at_most(q + i, dim - i) * sign);
  }
}

// Of one of the heads that are worked on together.
HF_DEVICE const float* queries_of_head(const AttentionArgs& args, const float* queries, int head) {
  return queries + head * kCpuFewRows * round_up(head_dim(args), kLanes);
}

constexpr int kFirstLevel = 3;  // of the caches, as __builtin_prefetch counts

template <int Level>
HF_DEVICE void prefetch_row(const Element* row, int elements) {
  constexpr int kLine = 64 / sizeof(Element);
  for (int i = 0; i < elements; i += kLine) __builtin_prefetch(row + i, 0, Level);
}

HF_DEVICE int rows_ahead(int elements) {
  return max_int(kBytesAhead / (elements * static_cast<int>(sizeof(Element))), 1);
}

// Keys of a block of all heads, and what its rows of scores are apart.
HF_DEVICE int few_rows_keys(const Chunk& chunk) {
  return max_int(kFewRowsKeys / chunk.heads / (2 * kLanes), 1) * (2 * kLanes);
}

// Products of Rows queries with kLanes / Rows rows of K, [row][key]. There are as many sums as
// lanes, so that they are reduced together.
template <int Rows>
HF_DEVICE Vec few_rows_products(int dim, const float* queries,
                                const Element* const (&k)[kLanes / Rows]) {
  constexpr int kKeys = kLanes / Rows;
  const int stride = round_up(dim, kLanes);
  Vec sum[kLanes];
  HF_UNROLL for (int n = 0; n < kLanes; ++n) sum[n] = broadcast(0.0f);
  int i = 0;
  for (; i + kPairLanes <= dim; i += kPairLanes) {
    VecPair query[Rows];
    HF_UNROLL for (int row = 0; row < Rows; ++row) {
      query[row] = {load(queries + row * stride + i), load(queries + row * stride + i + kLanes)};
    }
    HF_UNROLL for (int n = 0; n < kKeys; ++n) {
      const VecPair key = load_pair(k[n] + i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        Vec& to = sum[row * kKeys + n];
        to = fma(query[row].second, key.second, fma(query[row].first, key.first, to));
      }
    }
  }
  for (; i < dim; i += kLanes) {
    HF_UNROLL for (int n = 0; n < kKeys; ++n) {
      const Vec key = load_at_most(k[n] + i, dim - i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        Vec& to = sum[row * kKeys + n];
        to = fma(load(queries + row * stride + i), key, to);
      }
    }
  }
  return reduce_add_each(sum);
}

// scores[head][row][key] = q . k for `keys` rows of K in place; `rows` are the first head's.
template <int Rows>
HF_DEVICE void few_rows_scores(const AttentionArgs& args, const Chunk& chunk, const KeyRows& rows,
                               const float* queries, int keys, float* scores) {
  constexpr int kKeys = kLanes / Rows;
  const int dim = head_dim(args), row_stride = few_rows_keys(chunk);
  const int part = (keys + kKeys - 1) / kKeys, ahead = rows_ahead(dim * chunk.heads);
  for (int first = 0; first < part; ++first) {
    for (int head = 0; head < chunk.heads; ++head) {
      const long long offset = head * args.k_stride.head;
      const Element* k[kKeys];
      HF_UNROLL for (int n = 0; n < kKeys; ++n) {
        const int key = first + n * part;
        k[n] = key < keys ? rows[key] + offset : kZeroRow;
        prefetch_row<kFirstLevel>(rows[min_int(key + ahead, keys - 1)] + offset, dim);
      }
      float products[kLanes];
      store(products, few_rows_products<Rows>(dim, queries_of_head(args, queries, head), k));
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        HF_UNROLL for (int n = 0; n < kKeys; ++n) {
          scores[(head * Rows + row) * row_stride + first + n * part] = products[row * kKeys + n];
        }
      }
    }
  }
}

// output[row] += sum over kKeysAtOnce keys of probability * value.
template <int Rows>
HF_DEVICE void few_rows_add(int dim, const Element* const (&v)[kKeysAtOnce],
                            const float (&probability)[Rows][kKeysAtOnce], float* output,
                            int output_stride) {
  int i = 0;
  for (; i + kPairLanes <= dim; i += kPairLanes) {
    float* const out = output + i;
    VecPair sum[Rows];
    HF_UNROLL for (int row = 0; row < Rows; ++row) {
      sum[row] = {load(out + row * output_stride), load(out + row * output_stride + kLanes)};
    }
    HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
      const VecPair value = load_pair(v[n] + i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        const Vec p = broadcast(probability[row][n]);
        sum[row] = {fma(p, value.first, sum[row].first), fma(p, value.second, sum[row].second)};
      }
    }
    HF_UNROLL for (int row = 0; row < Rows; ++row) {
      store_pair<false>(out + row * output_stride, sum[row]);
    }
  }
  for (; i < dim; i += kLanes) {
    HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
      const Vec value = load_at_most(v[n] + i, dim - i);
      HF_UNROLL for (int row = 0; row < Rows; ++row) {
        float* const out = output + row * output_stride + i;
        store(out, fma(broadcast(probability[row][n]), value, load(out)));
      }
    }
  }
}

// output[head][row] += sum over keys of probability * value, its elements in the order of pairs. A
// key whose probabilities are all 0 is not read: nobody may see it.
template <int Rows>
HF_DEVICE void few_rows_output(const AttentionArgs& args, const Chunk& chunk, const KeyRows& rows,
                               const float* scores, int keys, float* output, int output_stride) {
  const int dim = value_head_dim(args), row_stride = few_rows_keys(chunk);
  const int part = (keys + kKeysAtOnce - 1) / kKeysAtOnce, ahead = rows_ahead(dim * chunk.heads);
  for (int first = 0; first < part; ++first) {
    for (int head = 0; head < chunk.heads; ++head) {
      const long long offset = head * args.v_stride.head;
      const Element* v[kKeysAtOnce];
      float probability[Rows][kKeysAtOnce];
      HF_UNROLL for (int n = 0; n < kKeysAtOnce; ++n) {
        const int key = first + n * part;
        unsigned used = 0;
        HF_UNROLL for (int row = 0; row < Rows; ++row) {
          const float* const of_row = scores + (head * Rows + row) * row_stride;
          const float p = key < keys ? probability_at(of_row, key) : 0.0f;
          probability[row][n] = p;
          used |= float_bits(p);
        }
        v[n] = used ? rows[key] + offset : kZeroRow;
        prefetch_row<kFirstLevel>(rows[min_int(key + ahead, keys - 1)] + offset, dim);
      }
      few_rows_add<Rows>(dim, v, probability, output + head * kCpuFewRows * output_stride,
                         output_stride);
    }
  }
}

// Outputs in the order of pairs are put in order.
HF_DEVICE void order_output(const AttentionArgs& args, int rows, float* output, int output_stride) {
  for (int row = 0; row < rows; ++row) {
    float* const out = output + row * output_stride;
    for (int i = 0; i + kPairLanes <= value_head_dim(args); i += kPairLanes) {
      store_pair<false>(out + i, in_order<Element>({load(out + i), load(out + i + kLanes)}));
    }
  }
}

}  // namespace hipflash
