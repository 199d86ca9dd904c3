// The matrix unit of RDNA3 and RDNA3.5: 16x16x16 products by a wave of 32 lanes.
//
// Operand: lane L holds the 16 elements of row (or column) L % 16; the upper half wave repeats the
// lower. Result register r of lane L is row 2r + L/16, column L % 16. Rows that lie in shared
// memory as wmma_operand_row() says come out as row 8 (L/16) + r, the order of gfx12, so all other
// text is the same for both.
#pragma once

namespace hipflash {

constexpr int kGeneration = 11;

// Whether the products of the hot loop keep their written order: here the compiler's order is
// better, and its registers do not cost a wave.
constexpr bool kOrderedProducts = false;

using Operand = u32x8;

// The first of a lane's elements along k.
HF_DEVICE int operand_k(int) {
  return 0;
}

// Probabilities of a lane's eight keys to an operand over all sixteen: the other half wave's eight
// are fetched, and put before or behind.
HF_DEVICE Operand to_operand(u32x4 mine) {
  const bool upper = lane_id() & 16;
  Operand all;
  HF_UNROLL
  for (int i = 0; i < 4; i++) {
    const unsigned word = mine[i], other = other_half(word);
    all[i] = upper ? other : word;
    all[4 + i] = upper ? word : other;
  }
  return all;
}

}  // namespace hipflash
