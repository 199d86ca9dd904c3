// The tile configs that each family may run a problem with: those that its text is written for and
// that fit the card. A tuned config counts only if it is in the list; the default need not be.
#pragma once

#include <vector>

#include "cpu/tiles.h"
#include "plan/tile_fields.h"

namespace hipflash::plan {

std::vector<CpuTile> cpu_tiles(CpuIsa isa);
std::vector<cdna::Tile> cdna_tiles(cdna::Card card, int element_bytes, int head_dim, int value_dim);
std::vector<rdna::WmmaTile> wmma_tiles(int generation, int head_dim, int value_dim);
std::vector<rdna::DotTile> dot_tiles(int element_bytes, int head_dim, int value_dim);

// `packed`: few rows of queries and heads, see Sm80Tile::pack_heads.
std::vector<Sm80Tile> sm80_tiles(int head_dim, int value_dim, int shared_limit, bool packed);
std::vector<NvF32Tile> nvf32_tiles(int head_dim, int value_dim, int shared_limit);
std::vector<NvF16x3Tile> nvf16x3_tiles(int head_dim, int value_dim, int shared_limit);
std::vector<Sm90Tile> sm90_tiles(int head_dim, int value_dim, int shared_limit,
                                 bool packed_sequences);

}  // namespace hipflash::plan
