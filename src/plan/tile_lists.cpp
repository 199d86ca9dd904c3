#include "plan/tile_lists.h"

#include <algorithm>

namespace hipflash::plan {
namespace {

struct Pair {
  int first, second;
};

// Register blocks (rows, vectors) that leave registers for operands, best known first.
std::vector<Pair> cpu_register_blocks(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::avx512:
    case CpuIsa::avx512_bf16:  // 32 registers
      return {{6, 4}, {8, 2}, {12, 2}, {4, 4}, {14, 2}};
    case CpuIsa::avx2:  // 16 registers
      return {{6, 2}, {4, 2}, {5, 2}, {8, 1}};
    case CpuIsa::portable:
      break;
  }
  return {{4, 1}, {2, 2}, {6, 1}, {2, 1}};
}

constexpr Pair kCpuBlocks[] = {
    // about so many queries and keys
    {64, 256},  {120, 128}, {64, 128},  {120, 256}, {32, 256}, {32, 128},
    {192, 128}, {64, 512},  {240, 128}, {120, 64},  {32, 512}, {240, 64},
};

}  // namespace

std::vector<CpuTile> cpu_tiles(CpuIsa isa) {
  std::vector<CpuTile> tiles;
  const int lanes = cpu_isa_facts(isa).lanes;
  for (const auto [queries, keys] : kCpuBlocks) {
    for (const auto [rows, vectors] : cpu_register_blocks(isa)) {
      const CpuTile tile = {(queries + rows - 1) / rows * rows, keys, rows, vectors};
      // What kernel_sources/cpu/tile.h asserts.
      const int columns = vectors * lanes;
      if (rows <= lanes && columns <= 4 * lanes && 64 % columns == 0 && keys % columns == 0 &&
          keys % (2 * lanes) == 0) {
        tiles.push_back(tile);
      }
    }
  }
  return tiles;
}

std::vector<cdna::Tile> cdna_tiles(cdna::Card card, int element_bytes, int head_dim,
                                   int value_dim) {
  // 64 keys of such rows under way leave no registers beside 32 rows of output: all used scratch,
  // but where a gfx950 gives a wave all its registers.
  const bool long_rows = element_bytes * std::max(head_dim, value_dim) >= 512;
  const auto uses_scratch = [&](const cdna::Tile& tile) {
    return long_rows && tile.tile_keys == 64 && tile.mma_rows == 32 && tile.stages == 1 &&
           (tile.waves_per_simd > 1 || card != cdna::Card::gfx950);
  };
  std::vector<cdna::Tile> tiles;
  for (const cdna::Tile& tile : cdna::kTiles) {
    if (uses_scratch(tile)) continue;
    if (cdna::possible(tile, element_bytes, head_dim, value_dim, card)) tiles.push_back(tile);
  }
  return tiles;
}

std::vector<rdna::WmmaTile> wmma_tiles(int generation, int head_dim, int value_dim) {
  std::vector<rdna::WmmaTile> tiles;
  for (const rdna::WmmaTile& listed : rdna::kWmmaTiles) {
    const auto tile = rdna::wmma_candidate(listed, generation, head_dim, value_dim);
    if (tile.waves > 0) tiles.push_back(tile);
  }
  return tiles;
}

std::vector<rdna::DotTile> dot_tiles(int element_bytes, int head_dim, int value_dim) {
  std::vector<rdna::DotTile> tiles;
  for (const int threads : {64, 128, 256}) {
    for (const int keys : {32, 64, 16}) {
      for (const int dims : {128, 64, 32}) {
        for (const int values : {64, 128}) {
          const rdna::DotTile tile = {threads, keys,
                                      rdna::smaller(rdna::round_up(head_dim, 4), dims), values};
          if (rdna::dot_shared(element_bytes, tile).bytes <= rdna::kSharedLimit &&
              (values == 64 || value_dim > 64) && (dims == 32 || head_dim > dims / 2)) {
            tiles.push_back(tile);
          }
        }
      }
    }
  }
  return tiles;
}

namespace {

// Registers of a thread when a multiprocessor's 65536 are dealt out.
int nv_registers(int threads, int blocks_per_sm) {
  return std::min(255, 65536 / (threads * blocks_per_sm));
}

// Registers beside accumulators: addresses, row maxima and sums, operands in flight.
constexpr int kNvOtherRegisters = 32;

}  // namespace

std::vector<Sm80Tile> sm80_tiles(int head_dim, int value_dim, int shared_limit, bool packed) {
  std::vector<Sm80Tile> tiles;
  const int out = nv_value_chunk(value_dim) / 2, dim = nv_round_up(head_dim, 16);
  const auto add = [&](const Sm80Tile& t) {
    const int held = t.q_in_registers ? dim / 4 : 0;
    const int registers = t.row_tiles * (out + t.tile_keys / 2 + held) + kNvOtherRegisters;
    if (registers <= nv_registers(sm80_threads(t), t.blocks_per_sm) &&
        // Calls over pages, which need a little more memory, take the configs of those without.
        sm80_shared_bytes(t, head_dim, value_dim, true) * t.blocks_per_sm <= shared_limit) {
      tiles.push_back(t);
    }
  };
  for (const int keys : packed ? std::vector<int>{64, 32, 48, 16, 80, 96, 112, 128}
                               : std::vector<int>{64, 32, 48, 80, 96, 112, 128}) {
    for (const int waves : packed ? std::vector<int>{1, 2, 4} : std::vector<int>{4, 8, 2}) {
      for (const int stages : {2, 1, 3}) {
        for (const int blocks : packed ? std::vector<int>{4, 2, 8} : std::vector<int>{2, 1, 3, 4}) {
          if (packed) {
            add({keys, waves, 1, stages, blocks, false, true, 1});
            continue;
          }
          for (const int row_tiles : {1, 2}) {
            add({keys, waves, row_tiles, stages, blocks, false, false, 1});
            add({keys, waves, row_tiles, stages, blocks, true, false, 1});
          }
        }
      }
    }
  }
  if (packed) {
    for (const int keys : {32, 48, 64, 16}) {
      for (const int waves : {1, 2}) {
        for (const int stages : {3, 2}) {
          for (const int parts : {4, 3, 2}) add({keys, waves, 1, stages, 1, false, true, parts});
        }
      }
    }
  }
  return tiles;
}

std::vector<NvF32Tile> nvf32_tiles(int head_dim, int value_dim, int shared_limit) {
  std::vector<NvF32Tile> tiles;
  for (const int keys : {32, 64, 16, 8}) {
    for (const int waves : {4, 2, 8, 1}) {
      for (const int blocks : {2, 1, 3}) {
        for (const bool over : {false, true}) {
          const NvF32Tile tile = {keys, waves, blocks, over};
          const int registers = keys + nvf32_value_chunk(value_dim) + 2 * kNvOtherRegisters;
          if (registers <= nv_registers(nvf32_threads(tile), blocks) &&
              (nvf32_shared_bytes(tile, head_dim, value_dim) + nv_paged_bytes(keys)) * blocks <=
                  shared_limit) {
            tiles.push_back(tile);
          }
        }
      }
    }
  }
  return tiles;
}

std::vector<NvF16x3Tile> nvf16x3_tiles(int head_dim, int value_dim, int shared_limit) {
  std::vector<NvF16x3Tile> tiles;
  for (const int keys : {32, 64, 48, 16}) {
    for (const int waves : {4, 8, 2}) {
      for (const int row_tiles : {2, 1}) {
        for (const int stages : {1, 2}) {
          for (const int blocks : {2, 1, 3}) {
            const NvF16x3Tile tile = {keys, waves, row_tiles, stages, blocks};
            // The output, and scores in two sums or probabilities in two parts.
            const int registers =
                row_tiles * (nvf16x3_value_chunk(row_tiles, value_dim) / 2 + keys) +
                kNvOtherRegisters;
            if (registers <= nv_registers(nvf16x3_threads(tile), blocks) &&
                nvf16x3_shared_bytes(tile, head_dim, value_dim) * blocks <= shared_limit) {
              tiles.push_back(tile);
            }
          }
        }
      }
    }
  }
  return tiles;
}

std::vector<Sm90Tile> sm90_tiles(int head_dim, int value_dim, int shared_limit,
                                 bool packed_sequences) {
  std::vector<Sm90Tile> tiles;
  const int out = nv_round_up(value_dim, 16) / 2;
  for (int keys = 48; keys <= 256; keys += 16) {
    for (const int groups : {2, 3}) {
      // Scores, and the probabilities of the step before as operands.
      const int registers = out + keys / 2 + keys / 4 + kNvOtherRegisters;
      if (registers > sm90_compute_registers(groups, packed_sequences)) continue;
      for (const int stages : {2, 4}) {
        for (const int q_stages : {2, 1}) {
          for (const bool turns : {true, false}) {
            const Sm90Tile tile = {keys, groups, stages, q_stages, turns};
            if (sm90_shared_bytes(tile, head_dim, value_dim) <= shared_limit) tiles.push_back(tile);
          }
        }
      }
    }
  }
  return tiles;
}

}  // namespace hipflash::plan
