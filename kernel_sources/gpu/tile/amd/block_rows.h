// The rows of a block: queries of one head; or with Spec::pack_heads those of all query heads that
// share K and V, the heads of a query side by side, so that few queries fill a tile.
#pragma once

#include "common/sequence.h"

namespace hipflash {

HF_DEVICE int rows_per_query(const AttentionArgs& args) {
  return Spec::pack_heads ? args.heads_q / args.heads_kv : 1;
}
HF_DEVICE int rows_of_head(const AttentionArgs& args) {
  return args.seq_q * rows_per_query(args);
}
HF_DEVICE int query_of_row(const AttentionArgs& args, int row) {
  return Spec::pack_heads ? row / rows_per_query(args) : row;
}
// `head` is the block's first.
HF_DEVICE int head_of_row(const AttentionArgs& args, int head, int row) {
  return Spec::pack_heads ? head + row % rows_per_query(args) : head;
}

// Whether a row of packed queries belongs to a sequence whose offsets can be right. Nobody computes
// the others, so merging must leave them alone.
HF_DEVICE bool belongs_to_sequence(const AttentionArgs& args, int row) {
  if constexpr (Spec::ragged) {
    if (args.cu_seqlens_q) {
      const int sequence = last_that(
          args.batch, [&](int b) { return sequence_offset(args, args.cu_seqlens_q, b) <= row; });
      const long long first = sequence_offset(args, args.cu_seqlens_q, sequence);
      const long long end = sequence_offset(args, args.cu_seqlens_q, sequence + 1);
      return first >= 0 && first <= row && row < end && end <= args.total_q;
    }
  }
  return true;
}

}  // namespace hipflash
