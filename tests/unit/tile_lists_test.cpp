// A tuner has something to choose from, whatever the head dimensions.
#include "plan/tile_lists.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hipflash::plan {
namespace {

constexpr cdna::Card kCards[] = {cdna::Card::gfx908, cdna::Card::gfx90a, cdna::Card::gfx942,
                                 cdna::Card::gfx950};

TEST(TileLists, AmdFamiliesListConfigsForEveryHeadDimension) {
  for (int dim = 1; dim <= 512; ++dim) {
    for (const int value_dim : {dim, 64, 512}) {
      for (const int bytes : {2, 4}) {
        for (const cdna::Card card : kCards) {
          EXPECT_FALSE(cdna_tiles(card, bytes, dim, value_dim).empty())
              << "card " << static_cast<int>(card) << " d" << dim << "/" << value_dim;
        }
        EXPECT_FALSE(dot_tiles(bytes, dim, value_dim).empty()) << "d" << dim << "/" << value_dim;
      }
      for (const int generation : {11, 12}) {
        EXPECT_FALSE(wmma_tiles(generation, dim, value_dim).empty())
            << "gfx" << generation << " d" << dim << "/" << value_dim;
      }
    }
  }
}

TEST(TileLists, CdnaListsNoConfigWhoseKernelsAllUseScratch) {
  const auto with_64_keys = [](int bytes, int dim) {
    const auto tiles = cdna_tiles(cdna::Card::gfx90a, bytes, dim, dim);
    return std::count_if(tiles.begin(), tiles.end(),
                         [](const cdna::Tile& tile) { return tile.tile_keys == 64; });
  };
  EXPECT_EQ(with_64_keys(2, 192), 4);
  EXPECT_EQ(with_64_keys(2, 256), 0);
  EXPECT_EQ(with_64_keys(4, 96), 4);
  EXPECT_EQ(with_64_keys(4, 128), 0);
}

}  // namespace
}  // namespace hipflash::plan
