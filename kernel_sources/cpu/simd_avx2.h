// AVX2, FMA and F16C words.
#pragma once

namespace hipflash {

using Vec = __m256;
constexpr int kLanes = 8;

// All bits set in lanes below n.
HF_DEVICE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

HF_DEVICE Vec from_f16(__m128i x) {
  return _mm256_cvtph_ps(x);
}
HF_DEVICE Vec from_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
HF_DEVICE __m128i to_f16(Vec x) {
  return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}
// Round to nearest even; a NaN stays a NaN.
HF_DEVICE __m128i to_bf16(Vec x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const Vec chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet),
                                      _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

// The first n half words; memory beyond them is not touched.
HF_DEVICE __m128i load_halves(const void* p, int n) {
  unsigned short halves[kLanes] = {};
  __builtin_memcpy(halves, p, static_cast<unsigned>(n) * sizeof(unsigned short));
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
}
HF_DEVICE void store_halves(void* p, __m128i x, int n) {
  unsigned short halves[kLanes];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(halves), x);
  __builtin_memcpy(p, halves, static_cast<unsigned>(n) * sizeof(unsigned short));
}

HF_DEVICE Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
HF_DEVICE Vec load(const F16* p) {
  return from_f16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
HF_DEVICE Vec load(const Bf16* p) {
  return from_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
HF_DEVICE Vec load_first(const float* p, int n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
HF_DEVICE Vec load_first(const F16* p, int n) {
  return from_f16(load_halves(p, n));
}
HF_DEVICE Vec load_first(const Bf16* p, int n) {
  return from_bf16(load_halves(p, n));
}

HF_DEVICE void store(float* p, Vec x) {
  _mm256_storeu_ps(p, x);
}
HF_DEVICE void store(F16* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_f16(x));
}
HF_DEVICE void store(Bf16* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16(x));
}
HF_DEVICE void store_first(float* p, Vec x, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), x);
}
HF_DEVICE void store_first(F16* p, Vec x, int n) {
  store_halves(p, to_f16(x), n);
}
HF_DEVICE void store_first(Bf16* p, Vec x, int n) {
  store_halves(p, to_bf16(x), n);
}

HF_DEVICE void stream(float* p, Vec x) {
  _mm256_stream_ps(p, x);
}
HF_DEVICE void stream(F16* p, Vec x) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), to_f16(x));
}
HF_DEVICE void end_stream() {
  _mm_sfence();
}

HF_DEVICE Vec broadcast(float x) {
  return _mm256_set1_ps(x);
}
HF_DEVICE Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
// The second operand where either is NaN.
HF_DEVICE Vec max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
HF_DEVICE float reduce_max(Vec x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
HF_DEVICE float reduce_add(Vec x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
HF_DEVICE bool any_above(Vec x, float limit) {
  return _mm256_movemask_ps(_mm256_cmp_ps(x, broadcast(limit), _CMP_GT_OQ)) != 0;
}

// x in lanes first <= lane < end, else `other`.
HF_DEVICE Vec keep_lanes(Vec x, int first, int end, Vec other) {
  const __m256i keep = _mm256_andnot_si256(first_lanes(first), first_lanes(end));
  return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(keep));
}

// 2^x up to 2^127, which also stands for what is larger; 0 for -infinity, NaN for NaN. Adding
// kRound leaves the nearest integer to x in the low bits, and with it the exponent of its power of
// two: at -127 that of 0.
HF_DEVICE Vec exp2(Vec x) {
  constexpr float kRound = 12582912.0f + 127.0f;
  x = _mm256_max_ps(broadcast(-127.0f), _mm256_min_ps(broadcast(127.0f), x));
  const Vec shifted = x + kRound;
  const Vec f = x - (shifted - kRound);
  Vec p = broadcast(1.3269534102e-3f);
  p = fma(p, f, broadcast(9.6712922677e-3f));
  p = fma(p, f, broadcast(5.5507108569e-2f));
  p = fma(p, f, broadcast(2.4022246897e-1f));
  p = fma(p, f, broadcast(6.9314700365e-1f));
  p = fma(p, f, broadcast(1.0f));
  return p * _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
}

HF_DEVICE float to_float(F16 x) {
  return _cvtsh_ss(x.bits);
}

HF_DEVICE Vec interleave_low(Vec a, Vec b) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
HF_DEVICE Vec interleave_high(Vec a, Vec b) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}

}  // namespace hipflash
