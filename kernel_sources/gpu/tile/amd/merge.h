// Joins the partial results of the splits of a key sequence, each normalised for itself.
#pragma once

#include "gpu/tile/amd/block_rows.h"

namespace hipflash {

// Value dim `d` of one row of `head`; `row` counts (batch, head, query). LSE is written with dim 0.
HF_DEVICE float merged_element(const AttentionArgs& args, int head, long long row, long long rows,
                               int dim, int d, float* lse) {
  float most = -kInfinity;
  for (int s = 0; s < args.splits; s++) most = hf_max(most, args.partial_lse[s * rows + row]);
  const float sink = Spec::sinks && args.sinks ? args.sinks[head] : -kInfinity;
  if constexpr (Spec::sinks) most = hf_max(most, sink);
  const float base = most > -kInfinity ? most : 0.0f;
  float sum = 0.0f, weight = 0.0f;
  if constexpr (Spec::sinks) weight = hf_exp2((sink - base) * kLog2e);  // a part without values
  for (int s = 0; s < args.splits; s++) {
    const float w = hf_exp2((args.partial_lse[s * rows + row] - base) * kLog2e);
    weight += w;
    sum = hf_fma(w, args.partial_out[(s * rows + row) * dim + d], sum);
  }
  *lse = weight == 0.0f ? -kInfinity : base + hf_log2(weight) * kLn2;
  return weight == 0.0f ? 0.0f : sum / weight;
}

// Element `index` of an output with rows of `dim`: what a thread of attention_merge does.
HF_DEVICE void merge_element(const AttentionArgs& args, long long index, int dim) {
  const long long rows =
      static_cast<long long>(args.partial_batch) * args.heads_q * args.partial_seq;
  if (index >= rows * dim) return;
  const long long row = index / dim;
  const int d = static_cast<int>(index % dim);
  const int query = static_cast<int>(row % args.partial_seq);
  const int head = static_cast<int>(row / args.partial_seq % args.heads_q);
  const int batch = static_cast<int>(row / args.partial_seq / args.heads_q);
  if (!belongs_to_sequence(args, query)) return;
  float lse;
  const float x = merged_element(args, head, row, rows, dim, d, &lse);
  store_element(
      args.out,
      batch * args.out_stride.batch + head * args.out_stride.head + query * args.out_stride.seq + d,
      x);
  if (Spec::lse && args.lse && d == 0) {
    args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
             query * args.lse_stride.seq] = lse;
  }
}

}  // namespace hipflash
