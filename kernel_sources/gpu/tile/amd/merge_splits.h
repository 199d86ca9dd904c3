// The body of attention_merge for the RDNA families: one thread for each element of the output.
#pragma once

#include "gpu/tile/amd/merge.h"
#include "gpu/tiles_rdna.h"

namespace hipflash {

HF_DEVICE void merge_splits(const AttentionArgs& args) {
  merge_element(args, static_cast<long long>(block_id()) * rdna::kMergeThreads + thread_id(),
                Spec::value_head_dim);
}

}  // namespace hipflash
