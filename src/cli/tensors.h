// From .npy files to the tensors of a call.
#pragma once

#include "cli/npy.h"
#include "cli/options.h"
#include "hipflash/attention.h"

namespace hipflash::cli {

// The arrays of one call and how attention sees them. Pointers are into the arrays.
struct CallTensors {
  NpyArray q_array, k_array, v_array, alibi_array, bias_array, mask_array, sinks_array;
  AlignedBytes cu_q, cu_k;                                          // int64
  AlignedBytes kv_lengths, block_table, batch_index, left_padding;  // int32
  NpyType out_type = NpyType::f32;
  std::vector<std::int64_t> out_shape, lse_shape;
  AlignedBytes out_data, lse_data;
  Tensor q, k, v, out;
  AttentionOptions options;
};

// Reads everything. Throws FileError for files that cannot be read, and Error InvalidArgument
// naming the option for arrays that do not fit together.
CallTensors load_tensors(const RunOptions& options);

}  // namespace hipflash::cli
