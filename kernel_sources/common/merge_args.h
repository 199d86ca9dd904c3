// The run-time arguments of merge_partials. Part of the kernel text and of the library; whoever
// includes it has included common/attention_args.h. When to raise kLauncherAbi: see src/jit/spec.h.
#pragma once

#include "common/attention_args.h"

namespace hipflash {

constexpr int kMostMergeParts = 16;

// `count` results, `out_step` and `lse_step` elements apart.
struct MergePart {
  const void* out;
  const float* lse;  // natural logarithm
  RowStrides out_stride, lse_stride;
  long long count, out_step, lse_step;
};

struct MergeArgs {
  MergePart part[kMostMergeParts];
  void* out;
  float* lse;  // null when not wanted
  RowStrides out_stride, lse_stride;
  int parts, batch, seq, heads, dim;
};

// On the CPU a work item is so many rows (batch, query, head).
constexpr int kMergeRowsPerItem = 16;

}  // namespace hipflash
