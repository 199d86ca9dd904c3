// Element conversion between f16, bf16, f32 and double, in plain bit arithmetic: the same values on
// every machine, with or without hardware for the 16-bit types.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hipflash/tensor.h"

namespace hipflash::verify {

inline std::uint32_t bits_of(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of_bits(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Exact.
inline float f16_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  // Infinity and NaN keep their mantissa; everything else is the same number under an exponent bias
  // that is 112 smaller, and one multiplication by 2^112 makes subnormals normal as well.
  if ((half & 0x7c00u) == 0x7c00u) return float_of_bits(sign | 0x7f800000u | magnitude);
  return float_of_bits(sign | bits_of(float_of_bits(magnitude) * 0x1p112f));
}

// To nearest, ties to even; 65520 and above become infinity. A NaN stays a NaN.
inline std::uint16_t float_to_f16(float value) noexcept {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 halves are multiples of 2^-24, which is the spacing of floats just above 0.5.
    half = bits_of(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  }
  return static_cast<std::uint16_t>(sign | half);
}

// Exact.
inline float bf16_to_float(std::uint16_t value) noexcept {
  return float_of_bits(static_cast<std::uint32_t>(value) << 16);
}

// To nearest, ties to even. A NaN stays a NaN.
inline std::uint16_t float_to_bf16(float value) noexcept {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The nearest value of `dtype`, as a float.
inline float round_to(DType dtype, float value) noexcept {
  switch (dtype) {
    case DType::f16:
      return f16_to_float(float_to_f16(value));
    case DType::bf16:
      return bf16_to_float(float_to_bf16(value));
    case DType::f32:
      break;
  }
  return value;
}

// Element `index` of an array of `dtype`. Exact.
inline float load(DType dtype, const void* data, std::int64_t index) noexcept {
  switch (dtype) {
    case DType::f16:
      return f16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::bf16:
      return bf16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::f32:
      break;
  }
  return static_cast<const float*>(data)[index];
}

// Stores the value of `dtype` nearest to `value`.
inline void store(DType dtype, void* data, std::int64_t index, double value) noexcept {
  auto single = static_cast<float>(value);
  if (dtype == DType::f32) {
    static_cast<float*>(data)[index] = single;
    return;
  }
  // Rounding twice is rounding once if the first step rounds to odd: an inexact result whose last
  // bit is 0 moves to its odd neighbour on the other side of the value.
  if (std::isfinite(value) && std::isfinite(single) && static_cast<double>(single) != value &&
      (bits_of(single) & 1u) == 0u) {
    const float towards = value > static_cast<double>(single)
                              ? std::numeric_limits<float>::infinity()
                              : -std::numeric_limits<float>::infinity();
    single = std::nextafterf(single, towards);
  }
  static_cast<std::uint16_t*>(data)[index] =
      dtype == DType::f16 ? float_to_f16(single) : float_to_bf16(single);
}

}  // namespace hipflash::verify
