// The words of wmma_unit.h on the host: lanes exchange their operands, each computes its results.
#pragma once

#include "gpu/tile/amd/host.h"

#define HF_WMMA_GENERATION HF_HOST_GFX

namespace hipflash {

using u32x8 = Vector<u32, 8>;
using Accumulator = Vector<float, 8>;

// ---- arithmetic of vectors, as GPU compilers have it --------------------------------------------
inline Accumulator operator*(Accumulator a, float b) {
  for (float& x : a.element) x *= b;
  return a;
}
inline Accumulator& operator*=(Accumulator& a, float b) {
  return a = a * b;
}
inline Accumulator operator-(Accumulator a, const Accumulator& b) {
  for (int r = 0; r < 8; r++) a[r] -= b[r];
  return a;
}
inline Accumulator operator-(float a, const Accumulator& b) {
  return Accumulator{a, a, a, a, a, a, a, a} - b;
}
template <int N>
inline Vector<u32, N>& operator&=(Vector<u32, N>& a, const Vector<u32, N>& b) {
  for (int i = 0; i < N; i++) a[i] &= b[i];
  return a;
}

// ---- lanes --------------------------------------------------------------------------------------
inline u32 other_half(u32 x) {
  u32 other;
  std::memcpy(&other, host::exchange(&x, sizeof(x)) + (lane_id() ^ 16) * sizeof(x), sizeof(x));
  return other;
}
inline u32 ballot(bool condition) {
  const char* const all = host::exchange(&condition, 1);
  u32 lanes = 0;
  for (int i = 0; i < kWave; i++) lanes |= (all[i] ? 1u : 0u) << i;
  return lanes;
}
inline void settle(Accumulator&) {}
inline int opaque(int x) {
  return x;
}

// ---- matrix products ----------------------------------------------------------------------------

// What a lane brings: its row of a, its column of b.
template <int N>
struct MatrixSides {
  float a[N], b[N];
};

template <int N>
inline MatrixSides<2 * N> sides_of(const Vector<u32, N>& a, const Vector<u32, N>& b) {
  const auto element = [](const Vector<u32, N>& words, int e) {
    const u16 x = static_cast<u16>(words[e / 2] >> 16 * (e % 2));
    return Spec::element == ElementType::bf16 ? bf16_to_float(x) : f16_to_float(x);
  };
  MatrixSides<2 * N> sides;
  for (int e = 0; e < 2 * N; e++) {
    sides.a[e] = element(a, e);
    sides.b[e] = element(b, e);
  }
  return sides;
}

template <int N>
inline float dot_product(const float (&a)[N], const float (&b)[N], float sum) {
  for (int e = 0; e < N; e++) sum += a[e] * b[e];
  return sum;
}

// gfx11: each half of the wave brings all of both matrices. Results are NaN if the halves do not
// bring the same.
inline Accumulator mma(u32x8 a, u32x8 b, Accumulator c) {
  const MatrixSides<16> mine = sides_of(a, b);
  const auto* const all =
      reinterpret_cast<const MatrixSides<16>*>(host::exchange(&mine, sizeof(mine)));
  const int lane = lane_id();
  if (std::memcmp(&mine, &all[lane ^ 16], sizeof(mine)) != 0) c = c * kNan;
  for (int r = 0; r < 8; r++) c[r] = dot_product(all[2 * r + lane / 16].a, mine.b, c[r]);
  return c;
}

// gfx12: each half of the wave brings half of k.
inline Accumulator mma(u32x4 a, u32x4 b, Accumulator c) {
  const MatrixSides<8> mine = sides_of(a, b);
  const auto* const all =
      reinterpret_cast<const MatrixSides<8>*>(host::exchange(&mine, sizeof(mine)));
  const int lane = lane_id(), column = lane % 16;
  for (int r = 0; r < 8; r++) {
    for (int half = 0; half < 32; half += 16) {
      c[r] = dot_product(all[8 * (lane / 16) + r + half].a, all[column + half].b, c[r]);
    }
  }
  return c;
}

}  // namespace hipflash
