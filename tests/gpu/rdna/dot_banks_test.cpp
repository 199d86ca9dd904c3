// Every access of the dot family to shared memory, from its addresses, by the same model as
// shared_banks_test.cpp.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/rdna/shared_banks.h"
#include "gpu/tiles_rdna.h"

namespace {

namespace rdna = hipflash::rdna;

// Addresses of a wave of 32 threads, from thread `first` of the block on.
template <class Address>
std::vector<int> wave(int first, Address&& address) {
  std::vector<int> lanes;
  for (int thread = first; thread < first + 32; thread++) lanes.push_back(address(thread));
  return lanes;
}

void expect_few_conflicts(int element_bytes, const rdna::DotTile& tile) {
  const rdna::DotShared at = rdna::dot_shared(element_bytes, tile);
  const int quad = 4 * element_bytes;
  // Threads form rows of 16, with four queries each (attention_forward_dot.hip).
  for (int first = 0; first < tile.threads; first += 32) {
    // Lanes on both sides of the gap after a row are one quad further apart: two may meet, which
    // costs a cycle for each row, once in a tile. Reads, of which there are many more, never meet.
    const auto load = [&](int dims, int pitch, int rows) {  // load_tile() of tile/amd/dot.h
      const int quads = dims / 4;
      for (int step = 0; step < rows * quads; step += tile.threads) {
        const auto lanes = wave(first, [&](int thread) {
          const int n = step + thread;
          return n < rows * quads ? n / quads * pitch + n % quads * quad : -1;
        });
        EXPECT_LE(worst_bank(lanes, quad), 2) << "store of " << dims << " dims";
      }
    };
    load(tile.dim_chunk, at.q_row, rdna::dot_queries(tile));
    load(tile.value_chunk, at.v_row, tile.tile_keys);
    for (int m = 0; m < 4; m++) {
      const auto query = [&](int thread) { return thread / 16 * 4 + m; };
      EXPECT_LE(worst_bank(wave(first, [&](int t) { return at.q + query(t) * at.q_row; }), quad), 1)
          << "read of Q";
      EXPECT_LE(worst_bank(wave(first, [&](int t) { return at.p + query(t) * at.p_row; }), 16), 1)
          << "read of P";
      EXPECT_LE(worst_bank(
                    wave(first, [&](int t) { return at.p + query(t) * at.p_row + t % 16 * 4; }), 4),
                1)
          << "store of P";
    }
    EXPECT_LE(worst_bank(wave(first, [&](int t) { return at.kv + t % 16 * at.q_row; }), quad), 1)
        << "read of K";
    EXPECT_LE(worst_bank(wave(first, [&](int t) { return at.kv + t % 16 * quad; }), quad), 1)
        << "read of V";
  }
}

TEST(DotSharedMemory, ReadsOfDefaultTilesHaveNoBankConflicts) {
  for (const int bytes : {2, 4}) {
    for (int dim = 1; dim <= 512; dim++) {
      const rdna::DotTile tile = rdna::dot_default(bytes, dim, dim);
      SCOPED_TRACE(std::to_string(bytes) + " bytes, d" + std::to_string(dim));
      expect_few_conflicts(bytes, tile);
      EXPECT_LE(rdna::dot_shared(bytes, tile).bytes, rdna::kSharedLimit);
    }
  }
}

}  // namespace
