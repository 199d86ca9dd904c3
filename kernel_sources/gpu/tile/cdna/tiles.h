// How tiles of K and V come to shared memory, and fragments out of it: through registers, or
// straight where the card can and the kernel lets it.
#pragma once

#include "gpu/tile/amd/pages.h"
#include "gpu/tile/cdna/memory.h"

namespace hipflash {

// Where in a phase of `steps` steps piece i of `count` is done: evenly in [first, end).
constexpr int step_of(int i, int count, int first, int end, int steps) {
  const int at = first + i * (end - first) / count;
  return at < steps ? at : steps - 1;
}

}  // namespace hipflash

#include "gpu/tile/cdna/staged.h"
#if HF_DIRECT_LOADS
#include "gpu/tile/cdna/direct.h"
#endif

namespace hipflash {

#if HF_DIRECT_LOADS
template <bool Direct>
struct WayOfTiles {
  using Tiles = DirectTiles;
  using KeyFragments = DirectKeyFragments;
  using ValueFragments = DirectValueFragments;
};
template <>
struct WayOfTiles<false> {
  using Tiles = StagedTiles;
  using KeyFragments = StagedKeyFragments;
  using ValueFragments = StagedValueFragments;
};
using Tiles = WayOfTiles<kDirect>::Tiles;
using KeyFragments = WayOfTiles<kDirect>::KeyFragments;
using ValueFragments = WayOfTiles<kDirect>::ValueFragments;
#else
using Tiles = StagedTiles;
using KeyFragments = StagedKeyFragments;
using ValueFragments = StagedValueFragments;
#endif

}  // namespace hipflash
