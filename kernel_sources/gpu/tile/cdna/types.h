// Shapes of the tiles, all derived from the Spec, and the tiles that live in registers.
//
// Words: a chunk is 16 bytes of consecutive elements. A matrix product has kRows x kRows results;
// its lanes form kGroups groups of kRows lanes. A fragment is one chunk in every lane: kRows rows
// (lane % kRows) of kGroups chunks (lane / kRows), so one fragment of each side multiplies kSlab
// elements of the inner dimension. The order of these elements is free as long as both sides share
// it, which is what lets one text serve every matrix instruction.
#pragma once

#include "gpu/tiles_cdna.h"

namespace hipflash {

constexpr bool kF32 = Spec::element == ElementType::f32;
constexpr bool kF16 = Spec::element == ElementType::f16;
constexpr int kChunk = 16 / kElementBytes;  // elements

// Rows as 16-byte chunks, and whole-word pieces of V. Else every element is loaded for itself.
constexpr bool kVectors = Spec::aligned && Spec::head_dim != 0 && Spec::head_dim % kChunk == 0 &&
                          Spec::value_head_dim != 0 && Spec::value_head_dim % kChunk == 0;

// What a query sees is not an interval: a bool mask or a bias is read for every score.
constexpr bool kElementwise = Spec::bias || Spec::mask;

// Tiles go straight from global to shared memory. A row that may need blanking does not.
constexpr bool kDirect =
    HF_DIRECT_LOADS && Spec::stages == 2 && kVectors && !kElementwise && !Spec::paged;

constexpr cdna::Tile kTile = {Spec::waves,          Spec::mma_rows,   Spec::tile_keys,
                              Spec::waves_per_simd, Spec::read_ahead, kDirect ? 2 : 1};

constexpr int kThreads = cdna::threads(kTile);
constexpr int kKeys = Spec::tile_keys;
constexpr int kHeadDim = cdna::padded_head_dim(
    kTile, kElementBytes, Spec::head_dim ? Spec::head_dim : Spec::largest_head_dim);
constexpr int kValueDim = cdna::padded_value_dim(
    kTile, kElementBytes, Spec::value_head_dim ? Spec::value_head_dim : Spec::largest_head_dim);

constexpr int kRows = Spec::mma_rows;
constexpr int kGroups = kWave / kRows;
constexpr int kSlab = kChunk * kGroups;
constexpr int kResults = kRows * kRows / kWave;  // result registers of a matrix product

constexpr int kKeyBlocks = kKeys / kRows;       // products along the keys
constexpr int kDimBlocks = kValueDim / kRows;   // products along the value dims
constexpr int kHeadSlabs = kHeadDim / kSlab;    // fragments along the head dimension
constexpr int kKeySlabs = kKeys / kSlab;        // fragments along the keys
constexpr int kScores = kKeys * kRows / kWave;  // scores of a tile in one lane
constexpr int kBlockRows = cdna::queries(kTile);

static_assert(kKeys % kSlab == 0 && kKeys % kRows == 0, "whole products along the keys");

using Accumulator = HF_VECTOR(float, kResults);

// All tiles are transposed: a lane's column (lane % kRows) is one query. Result register r of a
// product is row 4 * kGroups * (r / 4) + 4 * (lane / kRows) + r % 4.
struct QueryTile {
  u32x4 slab[kHeadSlabs];
};
struct ScoreTile {  // keys x queries
  Accumulator block[kKeyBlocks];
};
struct OutputTile {  // value dims x queries
  Accumulator block[kDimBlocks];
};

// The key within the tile, less the lane's share of it, that score `f` of a lane belongs to.
constexpr int key_of_score(int f) {
  return 4 * kGroups * (f / 4) + f % 4;
}
HF_DEVICE int first_key_of_lane() {
  return 4 * (lane_id() / kRows);
}
HF_DEVICE int row_of_lane() {
  return lane_id() % kRows;
}

HF_DEVICE int head_dim(const AttentionArgs& args) {
  return Spec::head_dim ? Spec::head_dim : args.head_dim;
}
HF_DEVICE int value_dim(const AttentionArgs& args) {
  return Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
}

HF_DEVICE void clear(OutputTile& tile) {
  HF_UNROLL for (int t = 0; t < kDimBlocks; t++) {
    HF_UNROLL for (int r = 0; r < kResults; r++) tile.block[t][r] = 0.0f;
  }
}

HF_DEVICE void scale_rows(OutputTile& tile, float factor) {
  HF_UNROLL for (int t = 0; t < kDimBlocks; t++) {
    HF_UNROLL for (int r = 0; r < kResults; r++) tile.block[t][r] *= factor;
  }
}

// Over the lanes that hold the same query.
HF_DEVICE float row_max(float x) {
  HF_UNROLL for (int m = kRows; m < kWave; m *= 2) x = hf_max(x, lane_xor(x, m));
  return x;
}
HF_DEVICE float row_sum(float x) {
  HF_UNROLL for (int m = kRows; m < kWave; m *= 2) x += lane_xor(x, m);
  return x;
}

}  // namespace hipflash
