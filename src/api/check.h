// The rules that a Problem and a call must follow.
#pragma once

#include <cstdint>

#include "hipflash/problem.h"

namespace hipflash::api {

// Throws Error(InvalidArgument) naming the field, its value and the rule, or Error(NotSupported)
// naming the feature.
void check_problem(const Problem& problem);

// True if there is nothing to compute and nothing to write.
bool is_empty(const Problem& problem) noexcept;

// Sizes of q, out and lse, and of k and v, as tensors in memory: packed and paged ones are not
// (batch, seq) of the Problem.
struct Extents {
  std::int64_t batch, seq;
};
Extents query_extents(const Problem& problem) noexcept;
Extents key_extents(const Problem& problem) noexcept;

// Throws Error(InvalidArgument) for a pointer that is missing or not aligned as promised.
void check_pointers(const Problem& problem, const TensorPointers& tensors);

// Throws Error(InvalidArgument) for offsets, lengths, slots or pages of a ragged call that cannot
// be right, naming the array, the index, the value and the rule. For memory that the host can read.
void check_sequences(const Problem& problem, const TensorPointers& tensors);

}  // namespace hipflash::api
