// The matrix product of mfma.h as loops: lanes exchange their fragments, each computes its results.
#pragma once

namespace hipflash {

inline float element_of(u32x4 chunk, int e) {
  if constexpr (kF32) return from_bits(chunk[e]);
  const u16 x = static_cast<u16>(chunk[e / 2] >> 16 * (e % 2));
  return kF16 ? f16_to_float(x) : bf16_to_float(x);
}

inline Accumulator mma(u32x4 a, u32x4 b, Accumulator c) {
  struct Sides {
    u32x4 a, b;
  };
  const Sides mine = {a, b};
  Sides all[kWave];
  std::memcpy(all, host::exchange(&mine, sizeof(mine)), sizeof(all));
  const int column = lane_id() % kRows;
  for (int r = 0; r < kResults; r++) {
    const int row = 4 * kGroups * (r / 4) + 4 * (lane_id() / kRows) + r % 4;
    for (int group = 0; group < kGroups; group++) {
      for (int e = 0; e < kChunk; e++) {
        c[r] += element_of(all[row + kRows * group].a, e) *
                element_of(all[column + kRows * group].b, e);
      }
    }
  }
  return c;
}

inline Accumulator mma_first(u32x4 a, u32x4 b) {
  Accumulator zero = {};
  return mma(a, b, zero);
}

}  // namespace hipflash
