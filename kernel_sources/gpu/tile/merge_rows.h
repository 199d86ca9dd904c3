// The body of attention_merge for the RDNA families: one thread for each element of the output.
#pragma once

#include "gpu/tile/merge.h"

namespace hipflash {

HF_DEVICE void merge_splits(const AttentionArgs& args) {
  constexpr int kDim = Spec::value_head_dim;
  const long long rows = static_cast<long long>(args.batch) * args.heads_q * args.seq_q;
  const long long index = static_cast<long long>(block_id()) * rdna::kMergeThreads + thread_id();
  if (index >= rows * kDim) return;
  const long long row = index / kDim;
  const int d = static_cast<int>(index % kDim);
  const int query = static_cast<int>(row % args.seq_q);
  const int head = static_cast<int>(row / args.seq_q % args.heads_q);
  const int batch = static_cast<int>(row / args.seq_q / args.heads_q);
  float lse;
  const float x = merged_element(args, row, rows, kDim, d, &lse);
  store_element(args.out,
                batch * args.out_stride.batch + head * args.out_stride.head +
                    query * args.out_stride.seq + d,
                x);
  if (Spec::lse && args.lse && d == 0) {
    args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
             query * args.lse_stride.seq] = lse;
  }
}

}  // namespace hipflash
