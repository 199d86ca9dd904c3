// The end of a row: its output and log-sum-exp, joined from parts of the keys and the sink.
//
// A part is an output, normalised over its own keys, and the natural logarithm of the sum of their
// exponentials. Parts are joined one after another, always by the same steps, so that it does not
// matter to the bits whether one thread had all of them or each thread had one.
#pragma once

#include "common/partials.h"
#include "cpu/chunk.h"

namespace hipflash {

// Parts joined so far: the largest logarithm, and the sum of weights relative to it.
struct RowTotal {
  float max, sum;
};

struct JoinWeights {
  float keep, take;  // of what there was, and of the new part
};

// A row's total before its first part: the sink, which has a weight and no value.
HF_DEVICE RowTotal total_before(const AttentionArgs& args, int head) {
  if constexpr (Spec::sinks) {
    if (args.sinks) return {args.sinks[head], 1.0f};
  }
  return {-kInfinity, 0.0f};
}

// Joins a part that is not empty.
HF_DEVICE JoinWeights join(RowTotal& total, float lse) {
  const float max = lse > total.max || lse != lse ? lse : total.max;
  const auto weight = [&](float logarithm) {
    return exp2(broadcast((logarithm - max) * kLog2e))[0];
  };
  const JoinWeights weights = {total.max == -kInfinity ? 0.0f : weight(total.max), weight(lse)};
  total = {max, total.sum * weights.keep + weights.take};
  return weights;
}

HF_DEVICE float inverse_of(float sum) {
  return sum == 0.0f ? 0.0f : 1.0f / sum;
}
HF_DEVICE float lse_of(RowTotal total) {
  return total.sum == 0.0f ? -kInfinity : total.max + natural_log(total.sum);
}
// Of a row whose maximum is an exponent of two.
HF_DEVICE float lse_of_row(float max, float sum) {
  return sum == 0.0f ? -kInfinity : max * kLn2 + natural_log(sum);
}

// row(column) for every vector of a row, into `to`.
template <class T, class Row>
HF_DEVICE void store_row(T* to, int dim, Row row) {
  int column = 0;
  for (; column + kLanes <= dim; column += kLanes) store(to + column, row(column));
  if (column < dim) store_first(to + column, row(column), dim - column);
}

template <class Row>
HF_DEVICE void write_result(const AttentionArgs& args, long long batch, long long query, int head,
                            float lse, Row row) {
  store_row(const_cast<Element*>(row_of(args.out, args.out_stride, batch, query, head)),
            value_head_dim(args), row);
  if constexpr (Spec::lse) {
    if (args.lse) {
      args.lse[batch * args.lse_stride.batch + query * args.lse_stride.seq +
               head * args.lse_stride.head] = lse;
    }
  }
}

HF_DEVICE long long partial_rows(const AttentionArgs& args) {
  return static_cast<long long>(args.partial_batch) * args.heads_q * args.partial_seq;
}

// A row that is done with its keys, or with its part of them: raw output, maximum and sum.
HF_DEVICE void write_row(const AttentionArgs& args, const Chunk& chunk, int row,
                         const float* output, float max, float sum) {
  const int query = query_of(chunk, row), head = head_of(chunk, row);
  const float inverse = inverse_of(sum), lse = lse_of_row(max, sum);
  const auto part = [&](int column) { return load(output + column) * inverse; };
  if (Spec::split_keys && args.splits > 1) {
    const long long index = partial_row(args, chunk.split, chunk.batch, head, query);
    args.partial_lse[index] = lse;
    if (lse != -kInfinity) {  // of an empty part nobody reads the output
      const int dim = value_head_dim(args);
      store_row(args.partial_out + index * dim, dim, part);
    }
  } else if (Spec::sinks && args.sinks) {
    RowTotal total = total_before(args, head);
    const float take = lse == -kInfinity ? 0.0f : join(total, lse).take;
    const float last = inverse_of(total.sum);
    write_result(args, chunk.batch, query, head, lse_of(total),
                 [&](int column) { return part(column) * take * last; });
  } else {
    write_result(args, chunk.batch, query, head, lse, part);
  }
}

// Joins a part of a row, relative to `inverse`, to the row's total.
HF_DEVICE void join_row(float* total, const float* part, float inverse, JoinWeights weights,
                        int columns) {
  for (int column = 0; column < columns; column += kLanes) {
    store(total + column, fma(load(part + column) * inverse, broadcast(weights.take),
                              load(total + column) * weights.keep));
  }
}

// A row of all heads' partial results, joined in the order of the splits.
HF_DEVICE void merge_row(const AttentionArgs& args, long long row) {
  const long long rows = partial_rows(args);
  const long long query = row % args.partial_seq;
  const int head = static_cast<int>(row / args.partial_seq % args.heads_q);
  if constexpr (Spec::ragged) {
    if (args.cu_seqlens_q && (query < sequence_offset(args, args.cu_seqlens_q, 0) ||
                              query >= sequence_offset(args, args.cu_seqlens_q, args.batch))) {
      return;  // of no sequence
    }
  }
  const int dim = value_head_dim(args);
  float joined[512 + kLanes];
  for (int column = 0; column < dim; column += kLanes) store(joined + column, broadcast(0.0f));
  RowTotal total = total_before(args, head);
  for (int split = 0; split < args.splits; ++split) {
    const float lse = args.partial_lse[split * rows + row];
    if (lse == -kInfinity) continue;
    const JoinWeights weights = join(total, lse);
    const float* part = args.partial_out + (split * rows + row) * dim;
    const int whole = dim / kLanes * kLanes;
    join_row(joined, part, 1.0f, weights, whole);
    if (whole < dim) {
      float tail[kLanes];
      store(tail, load_first(part + whole, dim - whole));
      join_row(joined + whole, tail, 1.0f, weights, kLanes);
    }
  }
  const float inverse = inverse_of(total.sum);
  write_result(args, row / args.partial_seq / args.heads_q, query, head, lse_of(total),
               [&](int column) { return load(joined + column) * inverse; });
}

}  // namespace hipflash
