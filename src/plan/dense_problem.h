// A Problem of dense tensors in numbers: what lists of common problems are made of.
#pragma once

#include <cstdint>

#include "hipflash/problem.h"

namespace hipflash::plan {

struct DenseShape {
  DType dtype;
  std::int64_t batch, heads_q, heads_kv, seq_q, seq_k, head_dim;
  bool causal;
};

inline Problem dense_problem(const DenseShape& shape) {
  Problem problem;
  problem.dtype = shape.dtype;
  problem.batch = shape.batch;
  problem.heads_q = shape.heads_q;
  problem.heads_kv = shape.heads_kv;
  problem.seq_q = shape.seq_q;
  problem.seq_k = shape.seq_k;
  problem.head_dim = problem.value_head_dim = shape.head_dim;
  problem.causal = shape.causal;
  problem.set_dense_bshd();
  return problem;
}

}  // namespace hipflash::plan
