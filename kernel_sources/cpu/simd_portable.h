// The words by the vector extensions of GCC and Clang: any target, and the text to compare with.
#pragma once

namespace hipflash {

constexpr int kLanes = 8;
typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
typedef int IntVec __attribute__((vector_size(kLanes * sizeof(int))));
typedef unsigned UintVec __attribute__((vector_size(kLanes * sizeof(unsigned))));
typedef unsigned short ShortVec __attribute__((vector_size(kLanes * sizeof(unsigned short))));

HF_DEVICE Vec broadcast(float x) {
  return Vec{} + x;
}
HF_DEVICE Vec fma(Vec a, Vec b, Vec c) {
  return a * b + c;
}  // fused where the target has it
// The second operand where either is NaN.
HF_DEVICE Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}

HF_DEVICE IntVec lane_numbers() {
  return IntVec{0, 1, 2, 3, 4, 5, 6, 7};
}

// x in lanes first <= lane < end, else `other`.
HF_DEVICE Vec keep_lanes(Vec x, int first, int end, Vec other) {
  const IntVec lane = lane_numbers();
  return ((lane >= first) & (lane < end)) ? x : other;
}

HF_DEVICE Vec from_bf16(UintVec halves) {
  return (Vec)(halves << 16);
}

// By exponent arithmetic: a half's exponent and fraction, moved into place, are the value times
// 2^-112, subnormals included; the product below is exact. 2^-112 scaled infinities are repaired.
HF_DEVICE Vec from_f16(UintVec halves) {
  const UintVec sign = (halves & 0x8000u) << 16;
  const UintVec body = (halves & 0x7fffu) << 13;
  UintVec bits = (UintVec)((Vec)body * 5192296858534827628530496329220096.0f);  // 2^112
  bits = body >= 0x0f800000u ? body | 0x7f800000u : bits;
  return (Vec)(bits | sign);
}

HF_DEVICE UintVec to_bf16(Vec x) {
  const UintVec bits = (UintVec)x;
  const UintVec rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return x == x ? rounded : (bits >> 16) | 0x40u;
}

HF_DEVICE UintVec to_f16(Vec x) {
  const UintVec bits = (UintVec)x;
  const UintVec sign = (bits >> 16) & 0x8000u;
  const UintVec size = bits & 0x7fffffffu;
  // Normal halves: rebias the exponent and round to nearest even; overflow becomes infinity.
  const UintVec normal = (size - 0x38000000u + 0x0fffu + ((size >> 13) & 1u)) >> 13;
  // Subnormal halves: adding 0.5 leaves the rounded fraction in the low bits.
  const UintVec subnormal = (UintVec)((Vec)size + 0.5f) - 0x3f000000u;
  UintVec half = size < 0x38800000u ? subnormal : normal;
  half = size >= 0x477ff000u ? UintVec{} + 0x7c00u : half;
  half = size > 0x7f800000u ? UintVec{} + 0x7e00u : half;
  return half | sign;
}

HF_DEVICE UintVec load_halves(const void* p, int n) {
  ShortVec halves = {};
  __builtin_memcpy(&halves, p, static_cast<unsigned>(n) * sizeof(unsigned short));
  return __builtin_convertvector(halves, UintVec);
}
HF_DEVICE void store_halves(void* p, UintVec x, int n) {
  const ShortVec halves = __builtin_convertvector(x, ShortVec);
  __builtin_memcpy(p, &halves, static_cast<unsigned>(n) * sizeof(unsigned short));
}

HF_DEVICE Vec load_first(const float* p, int n) {
  Vec x = {};
  __builtin_memcpy(&x, p, static_cast<unsigned>(n) * sizeof(float));
  return x;
}
HF_DEVICE Vec load_first(const F16* p, int n) {
  return from_f16(load_halves(p, n));
}
HF_DEVICE Vec load_first(const Bf16* p, int n) {
  return from_bf16(load_halves(p, n));
}
HF_DEVICE Vec load(const float* p) {
  return load_first(p, kLanes);
}
HF_DEVICE Vec load(const F16* p) {
  return load_first(p, kLanes);
}
HF_DEVICE Vec load(const Bf16* p) {
  return load_first(p, kLanes);
}

HF_DEVICE void store_first(float* p, Vec x, int n) {
  __builtin_memcpy(p, &x, static_cast<unsigned>(n) * sizeof(float));
}
HF_DEVICE void store_first(F16* p, Vec x, int n) {
  store_halves(p, to_f16(x), n);
}
HF_DEVICE void store_first(Bf16* p, Vec x, int n) {
  store_halves(p, to_bf16(x), n);
}
HF_DEVICE void store(float* p, Vec x) {
  store_first(p, x, kLanes);
}
HF_DEVICE void store(F16* p, Vec x) {
  store_first(p, x, kLanes);
}
HF_DEVICE void store(Bf16* p, Vec x) {
  store_first(p, x, kLanes);
}

HF_DEVICE void stream(float* p, Vec x) {
  store(p, x);
}
HF_DEVICE void stream(F16* p, Vec x) {
  store(p, x);
}
HF_DEVICE void end_stream() {}

HF_DEVICE float reduce_max(Vec x) {
  float m = x[0];
  HF_UNROLL for (int i = 1; i < kLanes; ++i) m = m > x[i] ? m : x[i];
  return m;
}
HF_DEVICE float reduce_add(Vec x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
HF_DEVICE bool any_above(Vec x, float limit) {
  return reduce_max(x) > limit;
}

// 2^x up to 2^127, which also stands for what is larger; 0 for -infinity, NaN for NaN. Adding
// kRound leaves the nearest integer to x in the low bits, and with it the exponent of its power of
// two: at -127 that of 0.
HF_DEVICE Vec exp2(Vec x) {
  constexpr float kRound = 12582912.0f + 127.0f;
  x = max(broadcast(-127.0f), x > 127.0f ? broadcast(127.0f) : x);
  const Vec shifted = x + kRound;
  const Vec f = x - (shifted - kRound);
  Vec p = broadcast(1.3269534102e-3f);
  p = fma(p, f, broadcast(9.6712922677e-3f));
  p = fma(p, f, broadcast(5.5507108569e-2f));
  p = fma(p, f, broadcast(2.4022246897e-1f));
  p = fma(p, f, broadcast(6.9314700365e-1f));
  p = fma(p, f, broadcast(1.0f));
  return p * (Vec)((UintVec)shifted << 23);
}

HF_DEVICE float to_float(F16 x) {
  return from_f16(UintVec{} + x.bits)[0];
}

HF_DEVICE Vec interleave_low(Vec a, Vec b) {
  return Vec{a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
}
HF_DEVICE Vec interleave_high(Vec a, Vec b) {
  return Vec{a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]};
}

}  // namespace hipflash
