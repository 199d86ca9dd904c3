// The matrix unit of RDNA4: 16x16x16 products by a wave of 32 lanes.
//
// Operand: lane L holds 8 elements of row (or column) L % 16, those from k = 8 (L/16) on (the
// machine numbers k otherwise, which cancels because both operands are filled alike). Result
// register r of lane L is row 8 (L/16) + r, column L % 16: as it stands the result is an operand of
// the next product.
#pragma once

namespace hipflash {

constexpr int kGeneration = 12;

// Whether the products of the hot loop keep their written order: the compiler would read ahead so
// far that registers leave 6 waves on a SIMD instead of 8.
constexpr bool kOrderedProducts = true;

using Operand = u32x4;

// The first of a lane's elements along k.
HF_DEVICE int operand_k(int half) {
  return 8 * half;
}

HF_DEVICE Operand to_operand(u32x4 mine) {
  return mine;
}

}  // namespace hipflash
