// Ragged problems as the tuner measures them: lengths, offsets and tables that stand for a run's.
#pragma once

#include <cstdint>
#include <vector>

#include "hipflash/problem.h"

namespace hipflash::autotune {

// Gives a ragged problem the layout that it is measured in: sequences one after another, each about
// as long as it may be, and pages of their own up to a most of memory (then they share).
void lay_out_sequences(Problem& problem);

// What the kernels read besides the tensors, for a problem that lay_out_sequences() made.
struct SequenceTables {
  std::vector<std::int32_t> offsets_q, offsets_k, lengths, slots, padding, pages;
  std::vector<std::int64_t> long_offsets_q, long_offsets_k;

  explicit SequenceTables(const Problem& problem);
};

}  // namespace hipflash::autotune
