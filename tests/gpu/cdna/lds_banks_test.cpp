// Bank conflicts of every shared memory access of the CDNA kernel, from the addresses that its
// lanes use, for the default tile of every card, element size and head dim.
//
// The model: 32 banks of 4 bytes. A wave's access is served in phases of 128 bytes. Lanes of a
// phase, as published for gfx942: 16-byte reads take lanes 0-3 with 20-23, 4-7 with 16-19, and so
// on; 16-byte writes 8 neighbours; 8-byte writes 16 neighbours (assumed). A phase without conflict
// touches every bank once.
//
// gfx950 reads 16 and 8 bytes of a lane from 64 banks, in phases of 256 bytes (lanes as published
// for 16 bytes; 32 neighbours assumed for 8). Tiles of two stages are held against both models.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gpu/tiles_cdna.h"

namespace {

namespace cdna = hipflash::cdna;

std::vector<std::vector<int>> read_phases() {
  std::vector<std::vector<int>> phases;
  for (int half = 0; half < 64; half += 32) {
    for (int first : {0, 4, 8, 12}) {
      std::vector<int> lanes;
      for (int i = 0; i < 4; i++) lanes.push_back(half + first + i);
      for (int i = 0; i < 4; i++) lanes.push_back(half + 16 + (first ^ 4) + i);
      phases.push_back(lanes);
    }
  }
  return phases;
}

std::vector<std::vector<int>> write_phases(int lanes_of_phase) {
  std::vector<std::vector<int>> phases;
  for (int first = 0; first < 64; first += lanes_of_phase) {
    std::vector<int> lanes;
    for (int i = 0; i < lanes_of_phase; i++) lanes.push_back(first + i);
    phases.push_back(lanes);
  }
  return phases;
}

std::vector<std::vector<int>> wide_read_phases() {
  std::vector<std::vector<int>> phases;
  for (int half = 0; half < 64; half += 32) {
    std::vector<int> first, second;
    for (int i : {0, 12, 20, 24}) {
      for (int lane = 0; lane < 4; lane++) first.push_back(half + i + lane);
    }
    for (int i : {4, 8, 16, 28}) {
      for (int lane = 0; lane < 4; lane++) second.push_back(half + i + lane);
    }
    phases.push_back(first);
    phases.push_back(second);
  }
  return phases;
}

// The largest number of different words that one bank serves in one phase.
int worst_phase(const std::vector<int>& address, int bytes,
                const std::vector<std::vector<int>>& phases, int bank_count = 32) {
  std::size_t worst = 0;
  for (const auto& lanes : phases) {
    std::vector<std::set<int>> banks(static_cast<std::size_t>(bank_count));
    for (int lane : lanes) {
      for (int b = 0; b < bytes; b += 4) {
        const int word = (address[static_cast<std::size_t>(lane)] + b) / 4;
        banks[static_cast<std::size_t>(word % bank_count)].insert(word);
      }
    }
    for (const auto& bank : banks) worst = std::max(worst, bank.size());
  }
  return static_cast<int>(worst);
}

// Accesses of one tile, by wave: the addresses of 64 lanes.
struct Accesses {
  std::vector<std::vector<int>> key_write, key_read, value_write, value_read;
};

Accesses accesses(cdna::Tile tile, int element_bytes, int head_dim, int value_dim) {
  const int d = cdna::padded_head_dim(tile, element_bytes, head_dim);
  const int chunk = 16 / element_bytes, groups = 64 / tile.mma_rows, slab = chunk * groups;
  const int row_chunks = d / chunk, halves = chunk / 4, pieces = cdna::value_pieces(tile);
  Accesses all;
  for (int wave = 0; wave < tile.waves; wave++) {
    for (int i = 0; i < cdna::key_pieces(tile, d, element_bytes); i++) {
      std::vector<int> at;
      for (int lane = 0; lane < 64; lane++) {
        const int index = wave * 64 + lane + i * cdna::threads(tile);
        at.push_back(cdna::key_place(d, element_bytes, index / row_chunks, index % row_chunks));
      }
      all.key_write.push_back(at);
    }
    std::vector<int> at;  // other dims of a piece are whole rows further
    for (int lane = 0; lane < 64; lane++) {
      const int thread = wave * 64 + lane;
      at.push_back(cdna::value_place(tile, element_bytes, thread / halves % pieces,
                                     thread / halves / pieces) +
                   thread % halves * 8);
    }
    all.value_write.push_back(at);
  }
  for (int s = 0; s < d / slab; s++) {
    std::vector<int> at;
    for (int lane = 0; lane < 64; lane++) {
      at.push_back(cdna::key_place(d, element_bytes, lane % tile.mma_rows,
                                   s * groups + lane / tile.mma_rows));
    }
    all.key_read.push_back(at);
  }
  for (int s = 0; s < tile.tile_keys / slab; s++) {
    std::vector<int> at;
    for (int lane = 0; lane < 64; lane++) {
      at.push_back(cdna::value_place(tile, element_bytes, lane % tile.mma_rows,
                                     s * groups + lane / tile.mma_rows));
    }
    all.value_read.push_back(at);
  }
  static_cast<void>(value_dim);  // adds rows, not patterns
  return all;
}

// Reads of a tile of two stages: of K by slab, of V by block of 32 dims. The loads that fill it
// write neighbouring places.
Accesses direct_reads(cdna::Tile tile, int head_dim, int value_dim) {
  Accesses all;
  const int d = cdna::padded_head_dim(tile, 2, head_dim), chunks = d / 8;
  for (int s = 0; s < d / 16; s++) {
    std::vector<int> at;
    for (int lane = 0; lane < 64; lane++) {
      const int row = lane % 32, chunk = 2 * s + lane / 32;
      at.push_back((row * cdna::key_pitch(d, 2) + cdna::direct_key_chunk(chunks, row, chunk)) * 16);
    }
    all.key_read.push_back(at);
  }
  const int value_chunks = cdna::padded_value_dim(tile, 2, value_dim) / 8;
  for (int block = 0; block < value_chunks / 4; block++) {
    std::vector<int> at;
    for (int lane = 0; lane < 64; lane++) {
      const int key = lane / 32 * 4 + lane % 16 / 4;
      const int dim = 32 * block + lane / 16 % 2 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
      const int chunk = cdna::direct_value_chunk(value_chunks, key, dim / 8);
      at.push_back((key * value_chunks + chunk) * 16 + dim % 8 * 2);
    }
    all.value_read.push_back(at);
  }
  return all;
}

TEST(LdsBanks, TilesOfTwoStagesHaveNoConflicts) {
  for (int dim = 8; dim <= 512; dim += 8) {
    SCOPED_TRACE("dim " + std::to_string(dim));
    const cdna::Tile tile = {4, 32, 32, 2, 3, 2};
    const Accesses all = direct_reads(tile, dim, dim);
    for (const auto& at : all.key_read) {
      ASSERT_EQ(worst_phase(at, 16, read_phases()), 1);
      ASSERT_EQ(worst_phase(at, 16, wide_read_phases(), 64), 1);
    }
    // Rows of an odd number of 64 bytes need no pattern with 64 banks, and have none that 32 would.
    const int narrow = cdna::padded_value_dim(tile, 2, dim) / 32 % 2 == 1 ? 2 : 1;
    for (const auto& at : all.value_read) {
      ASSERT_LE(worst_phase(at, 8, write_phases(16)), narrow);
      ASSERT_EQ(worst_phase(at, 8, write_phases(32), 64), 1);
    }
  }
}

// A chunk and the place it has change into each other, and stay within the row.
TEST(LdsBanks, TwoStagePatternsAreTheirOwnInverse) {
  for (int chunks = 2; chunks <= 64; chunks += 2) {
    for (int row = 0; row < 64; row++) {
      for (int chunk = 0; chunk < chunks; chunk++) {
        const int key = cdna::direct_key_chunk(chunks, row, chunk);
        ASSERT_LT(key, chunks);
        ASSERT_EQ(cdna::direct_key_chunk(chunks, row, key), chunk);
        if (chunks % 4 != 0) continue;
        const int value = cdna::direct_value_chunk(chunks, row, chunk);
        ASSERT_LT(value, chunks);
        ASSERT_EQ(cdna::direct_value_chunk(chunks, row, value), chunk);
      }
    }
  }
}

void expect_no_conflicts(cdna::Tile tile, int element_bytes, int dim) {
  SCOPED_TRACE("tile " + std::to_string(tile.waves) + "x" + std::to_string(tile.mma_rows) + " by " +
               std::to_string(tile.tile_keys) + ", " + std::to_string(element_bytes) +
               " bytes, dim " + std::to_string(dim));
  const Accesses all = accesses(tile, element_bytes, dim, dim);
  // Rows with a gap behind them: a phase that crosses into the next row spans one chunk more.
  const int d = cdna::padded_head_dim(tile, element_bytes, dim);
  const int write_conflicts = cdna::swizzled_keys(d, element_bytes) ? 1 : 2;
  for (const auto& at : all.key_write) {
    ASSERT_LE(worst_phase(at, 16, write_phases(8)), write_conflicts);
  }
  for (const auto& at : all.key_read) ASSERT_EQ(worst_phase(at, 16, read_phases()), 1);
  for (const auto& at : all.value_read) ASSERT_EQ(worst_phase(at, 16, read_phases()), 1);
  for (const auto& at : all.value_write) {
    ASSERT_EQ(element_bytes == 4 ? worst_phase(at, 16, write_phases(8))
                                 : worst_phase(at, 8, write_phases(16)),
              1);
  }
}

constexpr cdna::Card kCards[] = {cdna::Card::gfx908, cdna::Card::gfx90a, cdna::Card::gfx942,
                                 cdna::Card::gfx950};

TEST(LdsBanks, DefaultTilesHaveNoConflicts) {
  for (const cdna::Card card : kCards) {
    for (int element_bytes : {2, 4}) {
      for (int dim = 8; dim <= 512; dim += 8) {
        for (bool plain : {true, false}) {
          const cdna::Tile tile = cdna::default_tile(card, element_bytes, dim, dim, plain);
          if (tile.stages == 1) expect_no_conflicts(tile, element_bytes, dim);  // else above
        }
      }
    }
  }
}

TEST(LdsBanks, TilesOfShortSequencesHaveNoConflicts) {
  for (const cdna::Card card : kCards) {
    for (int dim = 8; dim <= 128; dim += 8) {
      ASSERT_TRUE(cdna::has_board_tile(2, dim, dim, false));
      const cdna::Tile tile = cdna::board_tile(card, dim, dim);
      ASSERT_TRUE(cdna::possible(tile, 2, dim, dim, card));
      expect_no_conflicts(tile, 2, dim);
      expect_no_conflicts(cdna::few_rows_tile(card, 2, dim, dim, false), 2, dim);
    }
  }
}

// The model itself: rows of 128 bytes without any rule put a whole phase on four banks.
TEST(LdsBanks, ModelSeesConflicts) {
  std::vector<int> at;
  for (int lane = 0; lane < 64; lane++) at.push_back(lane * 128);
  EXPECT_EQ(worst_phase(at, 16, read_phases()), 8);
  // A pattern of 8 rows is enough for 32 banks and not for 64.
  at.clear();
  for (int lane = 0; lane < 64; lane++) {
    at.push_back((lane % 32 * 16 + cdna::swizzled_chunk(16, lane % 32, lane / 32)) * 16);
  }
  EXPECT_EQ(worst_phase(at, 16, read_phases()), 1);
  EXPECT_EQ(worst_phase(at, 16, wide_read_phases(), 64), 2);
}

TEST(Tiles, EveryDefaultIsPossible) {
  for (auto card :
       {cdna::Card::gfx908, cdna::Card::gfx90a, cdna::Card::gfx942, cdna::Card::gfx950}) {
    for (int element_bytes : {2, 4}) {
      for (int head_dim = 1; head_dim <= 512; head_dim++) {
        for (int value_dim = 1; value_dim <= 512; value_dim++) {
          for (bool plain : {true, false}) {
            const cdna::Tile tile =
                cdna::default_tile(card, element_bytes, head_dim, value_dim, plain);
            ASSERT_TRUE(cdna::possible(tile, element_bytes, head_dim, value_dim, card))
                << head_dim << " " << value_dim;
          }
        }
      }
    }
  }
}

}  // namespace
