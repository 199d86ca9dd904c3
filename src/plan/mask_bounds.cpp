#include "plan/mask_bounds.h"

#include <algorithm>

namespace hipflash::plan {

MaskBounds mask_bounds(const Problem& problem) noexcept {
  MaskBounds bounds;
  bounds.left = bounds.right = kUnbounded;
  const std::int64_t diagonal =
      problem.alignment == MaskAlignment::bottom_right ? problem.seq_k - problem.seq_q : 0;
  bounds.diagonal = static_cast<int>(diagonal);

  std::int64_t right = problem.window.right;
  if (problem.causal) right = 0;
  const std::int64_t left = problem.window.left;
  if (problem.features.ragged()) {
    // Lengths are not known here: a side is dropped only where it hides no key whatever they are.
    const bool last_only = !problem.ragged.packed_q && problem.seq_q == 1 &&
                           problem.alignment == MaskAlignment::bottom_right;
    bounds.has_right = right >= 0 && right < kUnbounded && !last_only;
    bounds.has_left = left >= 0 && left < kUnbounded;
    if (bounds.has_right) bounds.right = static_cast<int>(right);
    if (bounds.has_left) bounds.left = static_cast<int>(left);
    return bounds;
  }
  // The first query is the one whose right edge lies furthest left.
  if (right >= 0 && diagonal + std::min<std::int64_t>(right, kUnbounded) < problem.seq_k - 1) {
    bounds.has_right = true;
    bounds.right = static_cast<int>(std::min<std::int64_t>(right, kUnbounded));
  }
  // The last query is the one whose left edge lies furthest right.
  if (left >= 0 && problem.seq_q - 1 + diagonal - std::min<std::int64_t>(left, kUnbounded) > 0) {
    bounds.has_left = true;
    bounds.left = static_cast<int>(std::min<std::int64_t>(left, kUnbounded));
  }
  return bounds;
}

}  // namespace hipflash::plan
