// Numbers as bits on the host, for amd/host.h and nv/host.h.
#pragma once

#include <cmath>
#include <cstring>

namespace hipflash {

using u32 = unsigned;
using u16 = unsigned short;

inline u32 bits(float x) {
  u32 y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline float from_bits(u32 x) {
  float y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline u32 low_halves(u32 a, u32 b) {
  return (a & 0xffffu) | b << 16;
}
inline u32 high_halves(u32 a, u32 b) {
  return a >> 16 | (b & 0xffff0000u);
}

inline float f16_to_float(u16 x) {
  // The exponent moves to that of f32, by a product that is exact, subnormal numbers among them.
  const u32 magnitude = static_cast<u32>(x & 0x7fff) << 13, sign = static_cast<u32>(x & 0x8000)
                                                                   << 16;
  if (magnitude >= 0x7c00u << 13) return from_bits(sign | 0x70000000u | magnitude);
  return from_bits(sign | bits(from_bits(magnitude) * 0x1p112f));
}
inline float bf16_to_float(u16 x) {
  return from_bits(static_cast<u32>(x) << 16);
}

inline u32 float_to_f16(float x, bool nearest) {
  const u32 sign = bits(x) >> 16 & 0x8000u;
  const float a = std::fabs(x);
  if (a != a) return 0x7e00u;
  if (a == __builtin_inff()) return sign | 0x7c00u;
  const int exponent = a < 6.103515625e-5f ? -14 : std::ilogb(a);  // of the last normal number
  const float scaled = std::ldexp(a, 10 - exponent);
  const u32 units = static_cast<u32>(nearest ? std::nearbyint(scaled) : std::trunc(scaled));
  // Units carry into the exponent by themselves; the smallest normal exponent is encoded as 1.
  const u32 code = units + (static_cast<u32>(exponent + 14) << 10);
  return sign | (code < 0x7c00u ? code : nearest ? 0x7c00u : 0x7bffu);
}
inline u32 pack_f16_toward_zero(float a, float b) {
  return float_to_f16(a, false) | float_to_f16(b, false) << 16;
}
inline u32 pack_f16_nearest(float a, float b) {
  return float_to_f16(a, true) | float_to_f16(b, true) << 16;
}
inline u32 pack_bf16_toward_zero(float a, float b) {
  return high_halves(bits(a), bits(b));
}
inline u32 round_to_bf16(float a) {
  const u32 x = bits(a);
  return a == a ? x + 0x7fffu + (x >> 16 & 1) : 0x7fffffffu;
}
inline u32 pack_bf16_nearest(float a, float b) {
  return high_halves(round_to_bf16(a), round_to_bf16(b));
}

}  // namespace hipflash
