// attention_merge: joins the normalised partial results of a row by their log-sum-exps.
#pragma once

namespace hipflash {

// 32 neighbouring threads join one row.
HF_DEVICE void merge_row(const AttentionArgs& args, long long row, int lane) {
  const long long rows = static_cast<long long>(args.batch) * args.heads_q * args.seq_q;
  if (row >= rows) return;
  float top = -kInfinity;
  for (int n = 0; n < args.splits; n++) top = hf_max(top, args.partial_lse[n * rows + row]);
  const bool empty = top == -kInfinity;
  float total = 0.0f;
  for (int n = 0; n < args.splits; n++) {
    total += hf_exp2((args.partial_lse[n * rows + row] - (empty ? 0.0f : top)) * kLog2e);
  }
  const float inverse = total == 0.0f ? 0.0f : 1.0f / total;

  const int query = static_cast<int>(row % args.seq_q);
  const int head = static_cast<int>(row / args.seq_q % args.heads_q);
  const int batch = static_cast<int>(row / args.seq_q / args.heads_q);
  const long long to = batch * args.out_stride.batch + head * args.out_stride.head +
                       query * args.out_stride.seq;
  for (int dim = lane; dim < Spec::value_head_dim; dim += 32) {
    float sum = 0.0f;
    for (int n = 0; n < args.splits; n++) {
      const float lse = args.partial_lse[n * rows + row];
      const float weight = hf_exp2((lse - (empty ? 0.0f : top)) * kLog2e) * inverse;
      // A part that saw nothing is 0 whatever its weight; NaN in a part stays.
      sum += weight * args.partial_out[(n * rows + row) * Spec::value_head_dim + dim];
    }
    store_element(args.out, to + dim, sum);
  }
  if (Spec::lse && lane == 0 && args.lse) {
    args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
             query * args.lse_stride.seq] = total == 0.0f ? -kInfinity : top + hf_log2(total) * kLn2;
  }
}

}  // namespace hipflash
