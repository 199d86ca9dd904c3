// Where a split of the keys leaves its part of a result.
#pragma once

namespace hipflash {

// The number of a row in partial_lse, and in partial_out, whose rows have all value dims.
HF_DEVICE long long partial_row(const AttentionArgs& args, int split, int batch, int head,
                                int query) {
  return ((static_cast<long long>(split) * args.partial_batch + batch) * args.heads_q + head) *
             args.partial_seq +
         query;
}

}  // namespace hipflash
