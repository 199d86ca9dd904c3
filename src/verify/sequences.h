// Ragged calls taken apart: each sequence becomes a dense problem of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hipflash/problem.h"

namespace hipflash::verify {

// A dense call: all of a dense problem, or one sequence of a ragged one.
struct DenseCall {
  Problem problem;
  TensorPointers tensors;       // into the tensors of the whole call
  std::int64_t sequence = 0;    // of the whole call: batch entry 0 of `problem`
  bool fault = false;           // its lengths, offsets or pages cannot be right: rows are NaN
  std::vector<std::byte> k, v;  // what was gathered from pages
};

// How many dense calls a problem is: 1, or its number of sequences.
std::int64_t dense_calls(const Problem& problem) noexcept;

// The dense call with this number. All pointers are host memory; none outside the tensors is formed
// whatever offsets and tables say.
DenseCall dense_call(const Problem& problem, const TensorPointers& tensors, std::int64_t number);

}  // namespace hipflash::verify
