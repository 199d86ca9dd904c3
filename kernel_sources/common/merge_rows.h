// What joining partial results needs of each row; hf_exp2 and hf_log2 are the platform's.
#pragma once

#include "common/logarithms.h"
#include "common/merge_args.h"

namespace hipflash {

struct MergeRow {
  int batch, query, head;
};

// Rows are numbered by (batch, query, head), the head fastest.
HF_DEVICE MergeRow merge_row(const MergeArgs& args, unsigned number) {
  const unsigned row = number / static_cast<unsigned>(args.heads);
  const unsigned batch = row / static_cast<unsigned>(args.seq);
  return {static_cast<int>(batch), static_cast<int>(row - batch * static_cast<unsigned>(args.seq)),
          static_cast<int>(number - row * static_cast<unsigned>(args.heads))};
}

HF_DEVICE long long offset_of(const RowStrides& stride, const MergeRow& row) {
  return row.batch * stride.batch + row.query * stride.seq + row.head * stride.head;
}

HF_DEVICE float part_lse(const MergePart& part, const MergeRow& row, long long s) {
  return part.lse[offset_of(part.lse_stride, row) + s * part.lse_step];
}

// The weight of a part is exp(its lse - reference) * inverse.
struct MergeWeights {
  float reference, inverse, lse;
};

// If no part saw a key, the result is (0, -inf).
HF_DEVICE MergeWeights merge_weights(const MergeArgs& args, const MergeRow& row) {
  float largest = -kInfinity;
  for (int p = 0; p < args.parts; p++) {
    for (long long s = 0; s < args.part[p].count; s++) {
      const float lse = part_lse(args.part[p], row, s);
      if (lse > largest || lse != lse) largest = lse;  // NaN stays: nothing is larger
    }
  }
  if (largest == -kInfinity) return {0.0f, 0.0f, -kInfinity};
  float sum = 0.0f;
  for (int p = 0; p < args.parts; p++) {
    for (long long s = 0; s < args.part[p].count; s++) {
      sum += hf_exp2((part_lse(args.part[p], row, s) - largest) * kLog2e);
    }
  }
  return {largest, 1.0f / sum, largest + hf_log2(sum) * kLn2};
}

}  // namespace hipflash
