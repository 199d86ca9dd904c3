// Tensors of the C API over vectors, as the tests of the C API use them.
#pragma once

#include <cstdint>
#include <vector>

#include "hipflash/c.h"

// Contiguous (batch, seq, heads, dim).
inline hipflash_tensor dense(std::vector<float>& data, std::int64_t batch, std::int64_t seq,
                             std::int64_t heads, std::int64_t dim) {
  hipflash_tensor t = HIPFLASH_TENSOR_INIT;
  t.data = data.data();
  t.batch = batch;
  t.seq = seq;
  t.heads = heads;
  t.dim = dim;
  t.stride_batch = seq * heads * dim;
  t.stride_seq = heads * dim;
  t.stride_head = dim;
  return t;
}
