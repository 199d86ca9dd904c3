// The vector vocabulary of the CPU families. The compiler's options choose the instruction set.
//
//   Vec                      kLanes floats, with + - * / and products with a float
//   load, store              full vectors from and to f32, f16, bf16, converting
//   load_first, store_first  the first n lanes; the other lanes read as 0 and are not written
//   stream, end_stream       stores past the caches, at multiples of kStreamBytes; the latter
//                            orders them before what follows
//   load_pair, store_pair    two vectors at once, their elements in an order of the type's own
//   broadcast, fma, max, exp2, reduce_max, reduce_add, any_above, keep_lanes
//   Unit, VecUnit            a packed operand of matrix products: an f32, or two bf16
#pragma once

#include "common/attention_args.h"

#define HF_DEVICE static inline __attribute__((always_inline))
#if defined(__clang__)
#define HF_UNROLL _Pragma("unroll")
#define HF_UNROLL_BY_2 _Pragma("clang loop unroll_count(2)")
#else
#define HF_UNROLL _Pragma("GCC unroll 32")
#define HF_UNROLL_BY_2 _Pragma("GCC unroll 2")
#endif

namespace hipflash {

struct F16 {
  unsigned short bits;
};
struct Bf16 {
  unsigned short bits;
};

constexpr float kInfinity = __builtin_inff();

HF_DEVICE unsigned float_bits(float x) {
  return __builtin_bit_cast(unsigned, x);
}
HF_DEVICE float float_from_bits(unsigned x) {
  return __builtin_bit_cast(float, x);
}

HF_DEVICE float to_float(float x) {
  return x;
}
HF_DEVICE float to_float(Bf16 x) {
  return float_from_bits(static_cast<unsigned>(x.bits) << 16);
}

}  // namespace hipflash

// Here, since a kernel's text holds every file once, where it is first asked for.
#if defined(__AVX2__)
#include "cpu/intrinsics.h"
#endif

#if defined(__AVX512F__)
#include "cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "cpu/simd_avx2.h"
#else
#include "cpu/simd_portable.h"
#endif

namespace hipflash {

// An element type by its number.
template <ElementType type>
struct ElementOf {
  using Type = float;
};
template <>
struct ElementOf<ElementType::f16> {
  using Type = F16;
};
template <>
struct ElementOf<ElementType::bf16> {
  using Type = Bf16;
};

#if !defined(__AVX512BF16__)
// Products in f32: one element is one unit.
using Unit = float;
using VecUnit = Vec;
constexpr int kUnitElements = 1;
HF_DEVICE VecUnit load_units(const Unit* p) {
  return load(p);
}
HF_DEVICE VecUnit broadcast_unit(const Unit* p) {
  return broadcast(*p);
}
HF_DEVICE Vec multiply_add(VecUnit a, VecUnit b, Vec c) {
  return fma(a, b, c);
}

// Units of one row along the head dimension; `elements` of them exist.
template <class T>
HF_DEVICE Vec load_row_units(const T* p, int elements) {
  return elements >= kLanes ? load(p) : load_first(p, elements);
}
HF_DEVICE Vec multiply_units(Vec units, float factor) {
  return units * factor;
}
// The units of one or two rows (they take kUnitElements) where they meet in a column.
template <class T>
HF_DEVICE Vec pair_rows(const T* row, const T*, int elements) {
  return elements >= kLanes ? load(row) : load_first(row, elements);
}
// Gathers in `check` whether an infinity or a NaN is among units; start from broadcast(0).
HF_DEVICE Vec check_finite(Vec check, Vec x) {
  return check + (x - x);
}
HF_DEVICE bool all_finite(Vec check) {
  return reduce_add(check) == 0.0f;
}
template <int Vectors>
HF_DEVICE void store_probabilities(Unit* to, const Vec (&p)[Vectors]) {
  HF_UNROLL for (int v = 0; v < Vectors; ++v) store(to + v * kLanes, p[v]);
}
#endif

// A probability written by store_probabilities, counted from the row's first.
HF_DEVICE float probability_at(const float* row, int i) {
  if constexpr (kUnitElements == 1) return row[i];
  Bf16 p;
  __builtin_memcpy(&p, reinterpret_cast<const char*>(row) + i * 2, 2);
  return to_float(p);
}

constexpr int kStreamBytes = 64;

// Two vectors of elements, in whatever order costs the fewest instructions: the same in all rows of
// a type. Of bf16 the even ones come first, since each half of a word is a shift or a mask away.
struct VecPair {
  Vec first, second;
};
constexpr int kPairLanes = 2 * kLanes;
typedef unsigned BitsVec __attribute__((vector_size(sizeof(Vec))));

template <class T>
HF_DEVICE VecPair load_pair(const T* p) {
  return {load(p), load(p + kLanes)};
}
HF_DEVICE VecPair load_pair(const Bf16* p) {
  const BitsVec both = (BitsVec)load(reinterpret_cast<const float*>(p));
  return {(Vec)(both << 16), (Vec)(both & 0xffff0000u)};
}

// The elements of a pair in order.
template <class T>
HF_DEVICE VecPair in_order(VecPair x) {
  if constexpr (__is_same(T, Bf16)) {
    return {interleave_low(x.first, x.second), interleave_high(x.first, x.second)};
  }
  return x;
}

template <bool Stream, class T>
HF_DEVICE void put(T* p, Vec x) {
  if constexpr (Stream) {
    stream(p, x);
  } else {
    store(p, x);
  }
}
template <bool Stream, class T>
HF_DEVICE void store_pair(T* p, VecPair x) {
  put<Stream>(p, x.first);
  put<Stream>(p + kLanes, x.second);
}
// Rounded to nearest even, in the upper half of each word. A NaN has to have a lower half of 0, as
// those have that come of bf16 numbers.
HF_DEVICE BitsVec bf16_in_word(Vec x) {
  const BitsVec bits = (BitsVec)x;
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
template <bool Stream>
HF_DEVICE void store_pair(Bf16* p, VecPair x) {
  const BitsVec both = (bf16_in_word(x.first) >> 16) | (bf16_in_word(x.second) & 0xffff0000u);
  put<Stream>(reinterpret_cast<float*>(p), (Vec)both);
}

// Rows become columns: element (i, j) of the square moves to (j, i).
HF_DEVICE void transpose(Vec (&rows)[kLanes]) {
  HF_UNROLL for (int step = 1; step < kLanes; step *= 2) {
    Vec shuffled[kLanes];
    HF_UNROLL for (int i = 0; i < kLanes / 2; ++i) {
      shuffled[2 * i] = interleave_low(rows[i], rows[i + kLanes / 2]);
      shuffled[2 * i + 1] = interleave_high(rows[i], rows[i + kLanes / 2]);
    }
    HF_UNROLL for (int i = 0; i < kLanes; ++i) rows[i] = shuffled[i];
  }
}

// Lane i of the result is the sum of the lanes of rows[i].
HF_DEVICE Vec reduce_add_each(Vec (&rows)[kLanes]) {
  HF_UNROLL for (int half = kLanes / 2; half >= 1; half /= 2) {
    HF_UNROLL for (int i = 0; i < half; ++i) {
      rows[i] = interleave_low(rows[i], rows[i + half]) + interleave_high(rows[i], rows[i + half]);
    }
  }
  return rows[0];
}

HF_DEVICE Vec hf_abs(Vec x) {
  return max(x, -x);
}

// tanh, relative error about 2e-7: a polynomial where 1 - exp would cancel, else by exp2.
HF_DEVICE Vec hf_tanh(Vec x) {
  const Vec magnitude = hf_abs(x);
  const Vec e = exp2(magnitude * -2.8853900817779268f);
  const Vec far = (1.0f - e) / (1.0f + e);
  const Vec z = x * x;
  Vec p = broadcast(-5.70498872745e-3f);
  p = fma(p, z, broadcast(2.06390887954e-2f));
  p = fma(p, z, broadcast(-5.37397155531e-2f));
  p = fma(p, z, broadcast(1.33314422036e-1f));
  p = fma(p, z, broadcast(-3.33332819422e-1f));
  const Vec near = fma(p * z, x, x);
  return magnitude < 0.625f ? near : (x < 0.0f ? -far : far);
}

// Natural logarithm of a positive float, through double: a row's last step, so speed is no matter.
HF_DEVICE float natural_log(float x) {
  const unsigned bits = float_bits(x);
  if (x != x || x <= 0.0f || bits >= 0x7f800000u)
    return x > 0.0f ? x : x == 0.0f ? -kInfinity : x - x + float_from_bits(0x7fc00000u);
  int exponent = static_cast<int>(bits >> 23) - 127;
  double mantissa = float_from_bits((bits & 0x7fffffu) | 0x3f800000u);
  if (exponent == -127) {  // subnormal
    const float scaled = x * 8388608.0f;
    exponent = static_cast<int>(float_bits(scaled) >> 23) - 127 - 23;
    mantissa = float_from_bits((float_bits(scaled) & 0x7fffffu) | 0x3f800000u);
  }
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 atanh((m - 1) / (m + 1)), |argument| <= 0.172
  const double t = (mantissa - 1.0) / (mantissa + 1.0), t2 = t * t;
  double series = 1.0 / 13;
  series = series * t2 + 1.0 / 11;
  series = series * t2 + 1.0 / 9;
  series = series * t2 + 1.0 / 7;
  series = series * t2 + 1.0 / 5;
  series = series * t2 + 1.0 / 3;
  series = series * t2 + 1.0;
  return static_cast<float>(exponent * 0.69314718055994531 + 2.0 * t * series);
}

}  // namespace hipflash
