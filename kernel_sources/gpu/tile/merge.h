// Joins the partial results of the splits of a key sequence, each normalised for itself.
#pragma once

namespace hipflash {

// Value dim `d` of one row; `row` counts (batch, head, query). LSE is written with dim 0.
HF_DEVICE float merged_element(const AttentionArgs& args, long long row, long long rows, int dim,
                               int d, float* lse) {
  float most = -kInfinity;
  for (int s = 0; s < args.splits; s++) most = hf_max(most, args.partial_lse[s * rows + row]);
  const float base = most > -kInfinity ? most : 0.0f;
  float sum = 0.0f, weight = 0.0f;
  for (int s = 0; s < args.splits; s++) {
    const float w = hf_exp2((args.partial_lse[s * rows + row] - base) * kLog2e);
    weight += w;
    sum = hf_fma(w, args.partial_out[(s * rows + row) * dim + d], sum);
  }
  *lse = weight == 0.0f ? -kInfinity : base + hf_log2(weight) * kLn2;
  return weight == 0.0f ? 0.0f : sum / weight;
}

}  // namespace hipflash
