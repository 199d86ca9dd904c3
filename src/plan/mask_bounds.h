// The position mask of a Problem in the kernels' terms.
#pragma once

#include "hipflash/problem.h"

namespace hipflash::plan {

// Query i sees key j when i + diagonal - left <= j <= i + diagonal + right. A side that hides no
// key of this Problem is unbounded, whether or not the caller wrote a number there: so equal masks
// take equal kernels and give equal bits.
struct MaskBounds {
  int diagonal = 0;
  bool has_left = false, has_right = false;
  int left = 0, right = 0;
};

// Larger than any sequence, small enough that a position plus two of it does not overflow an int.
inline constexpr int kUnbounded = 1 << 29;
inline constexpr std::int64_t kMaxSequence = (1 << 29) - 1;

MaskBounds mask_bounds(const Problem& problem) noexcept;

}  // namespace hipflash::plan
