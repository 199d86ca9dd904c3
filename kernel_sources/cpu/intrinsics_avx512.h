// The part of cpu/intrinsics.h for AVX-512 F, BW, DQ and VL. Masked builtins take what masked lanes
// keep, the mask, and where they have one the rounding.
#pragma once

HF_VECTOR(__m512, float, 64);
HF_VECTOR(__m512i, long long, 64);
HF_UNALIGNED(HfFloats16Anywhere, float, 64);
typedef int HfInts16 __attribute__((vector_size(64)));
typedef unsigned HfUnsigned16 __attribute__((vector_size(64)));
typedef unsigned short __mmask16;

constexpr __mmask16 kHfAllLanes = 0xffff;
constexpr int kHfCurrentRounding = 4;

#define _mm512_cvtps_ph(a, how) \
  ((__m256i)__builtin_ia32_vcvtps2ph512_mask(a, how, HfShorts16{}, kHfAllLanes))
#define _mm512_cmp_ps_mask(a, b, how) \
  static_cast<__mmask16>(__builtin_ia32_cmpps512_mask(a, b, how, kHfAllLanes, kHfCurrentRounding))
#define _mm512_reduce_ps(a, how) \
  ((__m512)__builtin_ia32_reduceps512_mask(a, how, __m512{}, kHfAllLanes))
#define HF_HALF_OF_512(a, half) \
  ((__m256)__builtin_ia32_extractf32x8_mask(a, half, __m256{}, static_cast<unsigned char>(-1)))

HF_INTRINSIC __m512 _mm512_loadu_ps(const float* p) {
  return *reinterpret_cast<const HfFloats16Anywhere*>(p);
}
HF_INTRINSIC void _mm512_storeu_ps(float* p, __m512 x) {
  *reinterpret_cast<HfFloats16Anywhere*>(p) = x;
}
HF_INTRINSIC void _mm512_stream_ps(float* p, __m512 x) {
  __builtin_ia32_movntps512(p, x);
}
HF_INTRINSIC __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const float* p) {
  return __builtin_ia32_loadups512_mask(p, __m512{}, mask);
}
HF_INTRINSIC void _mm512_mask_storeu_ps(float* p, __mmask16 mask, __m512 x) {
  __builtin_ia32_storeups512_mask(p, x, mask);
}
HF_INTRINSIC __m256i _mm256_maskz_loadu_epi16(__mmask16 mask, const void* p) {
  return (__m256i)__builtin_ia32_loaddquhi256_mask(static_cast<const short*>(p), HfShorts16{},
                                                   mask);
}
HF_INTRINSIC void _mm256_mask_storeu_epi16(void* p, __mmask16 mask, __m256i x) {
  __builtin_ia32_storedquhi256_mask(static_cast<short*>(p), (HfShorts16)x, mask);
}
HF_INTRINSIC __m512 _mm512_set1_ps(float x) {
  return __m512{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
HF_INTRINSIC __m512i _mm512_set1_epi32(int x) {
  return (__m512i)HfInts16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
HF_INTRINSIC __m512i _mm512_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h,
                                       int i, int j, int k, int l, int m, int n, int o, int p) {
  return (__m512i)HfInts16{a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
}
HF_INTRINSIC __m512 _mm512_castsi512_ps(__m512i x) {
  return (__m512)x;
}
HF_INTRINSIC __m512i _mm512_castps_si512(__m512 x) {
  return (__m512i)x;
}
HF_INTRINSIC __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return (__m512i)((HfUnsigned16)a + (HfUnsigned16)b);
}
HF_INTRINSIC __m512i _mm512_slli_epi32(__m512i x, unsigned bits) {
  return (__m512i)((HfUnsigned16)x << bits);
}
HF_INTRINSIC __m512i _mm512_srli_epi32(__m512i x, unsigned bits) {
  return (__m512i)((HfUnsigned16)x >> bits);
}
HF_INTRINSIC __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return a & b;
}
HF_INTRINSIC __m512i _mm512_mask_or_epi32(__m512i otherwise, __mmask16 mask, __m512i a, __m512i b) {
  return (__m512i)__builtin_ia32_pord512_mask((HfInts16)a, (HfInts16)b, (HfInts16)otherwise, mask);
}
HF_INTRINSIC __m256i _mm512_cvtepi32_epi16(__m512i x) {
  return (__m256i)__builtin_ia32_pmovdw512_mask((HfInts16)x, HfShorts16{}, kHfAllLanes);
}
HF_INTRINSIC __m512i _mm512_cvtepu16_epi32(__m256i x) {
  return (__m512i)__builtin_ia32_pmovzxwd512_mask((HfShorts16)x, HfInts16{}, kHfAllLanes);
}
HF_INTRINSIC __m512 _mm512_cvtph_ps(__m256i x) {
  return __builtin_ia32_vcvtph2ps512_mask((HfShorts16)x, __m512{}, kHfAllLanes, kHfCurrentRounding);
}
HF_INTRINSIC __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, kHfAllLanes, kHfCurrentRounding);
}
HF_INTRINSIC __m512 _mm512_max_ps(__m512 a, __m512 b) {
  return __builtin_ia32_maxps512_mask(a, b, __m512{}, kHfAllLanes, kHfCurrentRounding);
}
HF_INTRINSIC __m512 _mm512_scalef_ps(__m512 a, __m512 b) {
  return __builtin_ia32_scalefps512_mask(a, b, __m512{}, kHfAllLanes, kHfCurrentRounding);
}
HF_INTRINSIC __m512 _mm512_mask_blend_ps(__mmask16 choose_b, __m512 a, __m512 b) {
  return __builtin_ia32_blendmps_512_mask(a, b, choose_b);
}
HF_INTRINSIC __m512 _mm512_permutex2var_ps(__m512 a, __m512i order, __m512 b) {
  return __builtin_ia32_vpermt2varps512_mask((HfInts16)order, a, b, kHfAllLanes);
}

// Halves onto halves: the order of additions that <immintrin.h> has.
HF_INTRINSIC float _mm512_reduce_max_ps(__m512 x) {
  const __m256 by8 = _mm256_max_ps(HF_HALF_OF_512(x, 1), HF_HALF_OF_512(x, 0));
  const __m128 by4 = _mm_max_ps(_mm256_extractf128_ps(by8, 1), _mm256_extractf128_ps(by8, 0));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_max_ss(by2, _mm_movehdup_ps(by2))[0];
}
HF_INTRINSIC float _mm512_reduce_add_ps(__m512 x) {
  const __m256 by8 = HF_HALF_OF_512(x, 1) + HF_HALF_OF_512(x, 0);
  const __m128 by4 = _mm256_extractf128_ps(by8, 1) + _mm256_extractf128_ps(by8, 0);
  const __m128 by2 = by4 + _mm_movehl_ps(by4, by4);
  return by2[0] + by2[1];
}
