// Every access of the wmma family to shared memory, from its addresses: no two lanes that are
// served together may need different words of one bank.
#include "gpu/rdna/shared_banks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/tiles_rdna.h"

namespace {

namespace rdna = hipflash::rdna;

struct Layout {
  int generation;
  rdna::WmmaTile tile;
  int head_dim;
  rdna::WmmaShared at;
  rdna::WmmaStaging to;

  Layout(int gfx, rdna::WmmaTile config, int dim)
      : generation(gfx),
        tile(config),
        head_dim(dim),
        at(rdna::wmma_shared(gfx, config, dim)),
        to(rdna::wmma_staging(config, dim)) {}

  std::vector<int> key_store(int wave, int piece) const {
    std::vector<int> lanes;
    for (int thread = 32 * wave; thread < 32 * wave + 32; thread++) {
      const int row = rdna::wmma_key_row(to, thread), column = rdna::wmma_key_column(to, thread);
      const bool active = row < tile.tile_keys && column < rdna::round_up(head_dim, 16);
      lanes.push_back(!active ? -1
                              : at.k + rdna::wmma_key_offset(generation, at, row) + column * 2 +
                                    rdna::wmma_key_offset(generation, at, piece * to.key_step));
    }
    return lanes;
  }
  std::vector<int> value_store(int wave, int task, int dim_in_piece) const {
    std::vector<int> lanes;
    for (int thread = 32 * wave; thread < 32 * wave + 32; thread++) {
      const int run = rdna::wmma_value_run(to, thread), dim = rdna::wmma_value_dim(to, thread);
      const bool active = run < to.runs && dim < tile.value_slice;
      lanes.push_back(!active ? -1
                              : at.v + rdna::wmma_value_offset(generation, at, dim) +
                                    rdna::wmma_value_offset(generation, at, dim_in_piece) +
                                    (run + task * to.run_step) * to.run * 2);
    }
    return lanes;
  }
  // A lane's 16 bytes of an operand whose rows are `pitch` apart, in groups.
  std::vector<int> operand(int group_rows, int group, int pitch, int part) const {
    std::vector<int> lanes;
    for (int lane = 0; lane < 32; lane++) {
      const int row = lane % 16, half = lane / 16;
      lanes.push_back(row / group_rows * group + row % group_rows * pitch +
                      (generation == 12 ? half * 16 : part * 16));
    }
    return lanes;
  }
};

void expect_no_conflicts(const Layout& l, const std::string& name) {
  SCOPED_TRACE(name);
  for (int wave = 0; wave < l.tile.waves; wave++) {
    for (int n = 0; n < l.to.key_pieces; n++) EXPECT_LE(worst_bank(l.key_store(wave, n), 16), 1);
    for (int n = 0; n < l.to.value_tasks; n++) {
      for (int j = 0; j < 8; j++) {
        EXPECT_LE(worst_bank(l.value_store(wave, n, j), 2 * l.to.run), 1) << "store of V";
      }
    }
  }
  for (int part = 0; part < 2; part++) {
    EXPECT_EQ(worst_bank(l.operand(16, 0, l.at.k_row, part), 16), 1) << "read of K or Q";
    EXPECT_EQ(worst_bank(l.operand(l.at.group_rows, l.at.group, l.at.v_row, part), 16), 1)
        << "read of V";
  }
}

std::string name_of(int generation, int head_dim, const rdna::WmmaTile& t) {
  return "gfx" + std::to_string(generation) + " d" + std::to_string(head_dim) + " " +
         std::to_string(t.waves) + "x" + std::to_string(t.query_tiles) + " k" +
         std::to_string(t.tile_keys) + " v" + std::to_string(t.value_slice);
}

TEST(RdnaSharedMemory, DefaultTilesHaveNoBankConflicts) {
  for (const int generation : {11, 12}) {
    for (const int dim : {1,   8,   16,  24,  32,  40,  48,  64,  80,  96, 112,
                          128, 160, 192, 224, 256, 272, 320, 384, 448, 512}) {
      for (const int queries : {1, 17, 33, 64, 4096}) {
        for (const bool modified : {false, true}) {
          const auto tile = rdna::wmma_default(generation, dim, dim, queries, modified);
          expect_no_conflicts(Layout(generation, tile, dim), name_of(generation, dim, tile));
        }
      }
    }
  }
}

TEST(RdnaSharedMemory, ListedTilesFit) {
  for (const int generation : {11, 12}) {
    for (int dim = 1; dim <= 512; dim++) {
      int possible = 0;
      for (const auto& listed : rdna::kWmmaTiles) {
        const auto tile = rdna::wmma_candidate(listed, generation, dim, dim);
        if (!tile.waves) continue;
        possible++;
        EXPECT_LE(rdna::wmma_shared(generation, tile, dim).bytes, rdna::kSharedLimit);
      }
      if (dim <= 256) {
        EXPECT_GT(possible, 0) << name_of(generation, dim, {});
      }
      for (const int queries : {1, 40, 1000}) {
        const auto tile = rdna::wmma_default(generation, dim, dim, queries, true);
        const auto to = rdna::wmma_staging(tile, dim);
        EXPECT_GE(tile.waves, 1);
        EXPECT_GE(to.key_step, 1);
        EXPECT_GE(to.run_step, to.run == 8 ? 1 : to.sharers);
        EXPECT_LE(rdna::wmma_shared(generation, tile, dim).bytes, rdna::kSharedLimit);
      }
    }
  }
}

TEST(RdnaTiles, GridCoversEveryQueryAndSlice) {
  const rdna::WmmaTile tile = {8, 1, 32, false, 128};
  EXPECT_EQ(rdna::wmma_blocks(tile, 2, 4, 129, 128, 1), 2 * 4 * 2);
  EXPECT_EQ(rdna::wmma_blocks(tile, 1, 1, 1, 300, 3), 3 * 3);
  EXPECT_EQ(rdna::wmma_blocks(tile, 0, 4, 129, 128, 1), 0);
  EXPECT_EQ(rdna::wmma_generation("gfx1100"), 11);
  EXPECT_EQ(rdna::wmma_generation("gfx1151:xnack-"), 11);
  EXPECT_EQ(rdna::wmma_generation("gfx1201"), 12);
  EXPECT_EQ(rdna::wmma_generation("gfx1030"), 0);
  EXPECT_EQ(rdna::wmma_generation("gfx942"), 0);
}

}  // namespace
