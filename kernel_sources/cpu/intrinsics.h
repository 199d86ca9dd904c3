// The intrinsics that the AVX2 and AVX-512 words use. <immintrin.h> declares thousands and reading
// it takes a third of a kernel's compile, so for GCC, whose builtins below mean the same from 11 to
// 16, they are declared here; for every other compiler the header does it.
#pragma once

#if !defined(__GNUC__) || defined(__clang__) || __GNUC__ < 11 || __GNUC__ > 16 || \
    defined(__AVX512BF16__)
#include <immintrin.h>
#else

#define HF_VECTOR(name, element, bytes) \
  typedef element name __attribute__((vector_size(bytes), may_alias))
#define HF_UNALIGNED(name, element, bytes) \
  typedef element name __attribute__((vector_size(bytes), may_alias, aligned(1)))
#define HF_INTRINSIC static inline __attribute__((always_inline, artificial))

HF_VECTOR(__m128, float, 16);
HF_VECTOR(__m256, float, 32);
HF_VECTOR(__m128i, long long, 16);
HF_VECTOR(__m256i, long long, 32);
HF_UNALIGNED(HfFloats8Anywhere, float, 32);
HF_UNALIGNED(HfBits128Anywhere, long long, 16);
HF_UNALIGNED(HfBits256Anywhere, long long, 32);
typedef int HfInts4 __attribute__((vector_size(16)));
typedef int HfInts8 __attribute__((vector_size(32)));
typedef unsigned HfUnsigned8 __attribute__((vector_size(32)));
typedef short HfShorts8 __attribute__((vector_size(16)));
typedef short HfShorts16 __attribute__((vector_size(32)));

constexpr int _MM_FROUND_TO_NEAREST_INT = 0, _MM_FROUND_TO_NEG_INF = 1, _MM_FROUND_NO_EXC = 8;
constexpr int _CMP_UNORD_Q = 3, _CMP_GT_OQ = 30;

// Macros where the builtin wants a constant.
#define _mm256_cmp_ps(a, b, how) ((__m256)__builtin_ia32_cmpps256(a, b, how))
#define _mm256_cvtps_ph(a, how) ((__m128i)__builtin_ia32_vcvtps2ph256(a, how))
#define _mm256_extracti128_si256(a, half) ((__m128i)__builtin_ia32_extract128i256(a, half))
#define _mm256_extractf128_ps(a, half) ((__m128)__builtin_ia32_vextractf128_ps256(a, half))
#define _mm256_permute2f128_ps(a, b, how) ((__m256)__builtin_ia32_vperm2f128_ps256(a, b, how))

HF_INTRINSIC float _cvtsh_ss(unsigned short x) {
  return __builtin_ia32_vcvtph2ps(HfShorts8{static_cast<short>(x)})[0];
}
HF_INTRINSIC __m128i _mm_loadu_si128(const HfBits128Anywhere* p) {
  return *p;
}
HF_INTRINSIC void _mm_storeu_si128(HfBits128Anywhere* p, __m128i x) {
  *p = x;
}
HF_INTRINSIC void _mm_stream_si128(__m128i* p, __m128i x) {
  __builtin_ia32_movntdq(p, x);
}
HF_INTRINSIC void _mm_sfence() {
  __builtin_ia32_sfence();
}
HF_INTRINSIC int _mm256_movemask_ps(__m256 a) {
  return __builtin_ia32_movmskps256(a);
}
HF_INTRINSIC __m128i _mm_packus_epi32(__m128i a, __m128i b) {
  return (__m128i)__builtin_ia32_packusdw128((HfInts4)a, (HfInts4)b);
}
HF_INTRINSIC __m128 _mm_max_ps(__m128 a, __m128 b) {
  return __builtin_ia32_maxps(a, b);
}
HF_INTRINSIC __m128 _mm_max_ss(__m128 a, __m128 b) {
  return __builtin_ia32_maxss(a, b);
}
HF_INTRINSIC __m128 _mm_add_ps(__m128 a, __m128 b) {
  return a + b;
}
HF_INTRINSIC __m128 _mm_add_ss(__m128 a, __m128 b) {
  return __builtin_ia32_addss(a, b);
}
HF_INTRINSIC __m128 _mm_movehl_ps(__m128 a, __m128 b) {
  return __builtin_ia32_movhlps(a, b);
}
HF_INTRINSIC __m128 _mm_movehdup_ps(__m128 x) {
  return __builtin_ia32_movshdup(x);
}
HF_INTRINSIC float _mm_cvtss_f32(__m128 x) {
  return x[0];
}

HF_INTRINSIC __m256i _mm256_loadu_si256(const HfBits256Anywhere* p) {
  return *p;
}
HF_INTRINSIC void _mm256_storeu_si256(HfBits256Anywhere* p, __m256i x) {
  *p = x;
}
HF_INTRINSIC void _mm256_stream_si256(__m256i* p, __m256i x) {
  __builtin_ia32_movntdq256(p, x);
}
HF_INTRINSIC void _mm256_stream_ps(float* p, __m256 x) {
  __builtin_ia32_movntps256(p, x);
}
HF_INTRINSIC __m256 _mm256_loadu_ps(const float* p) {
  return *reinterpret_cast<const HfFloats8Anywhere*>(p);
}
HF_INTRINSIC void _mm256_storeu_ps(float* p, __m256 x) {
  *reinterpret_cast<HfFloats8Anywhere*>(p) = x;
}
HF_INTRINSIC __m256 _mm256_maskload_ps(const float* p, __m256i mask) {
  return __builtin_ia32_maskloadps256(reinterpret_cast<const __m256*>(p), (HfInts8)mask);
}
HF_INTRINSIC void _mm256_maskstore_ps(float* p, __m256i mask, __m256 x) {
  __builtin_ia32_maskstoreps256(reinterpret_cast<__m256*>(p), (HfInts8)mask, x);
}
HF_INTRINSIC __m256 _mm256_set1_ps(float x) {
  return __m256{x, x, x, x, x, x, x, x};
}
HF_INTRINSIC __m256i _mm256_set1_epi32(int x) {
  return (__m256i)HfInts8{x, x, x, x, x, x, x, x};
}
HF_INTRINSIC __m256i _mm256_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h) {
  return (__m256i)HfInts8{a, b, c, d, e, f, g, h};
}
HF_INTRINSIC __m256 _mm256_castsi256_ps(__m256i x) {
  return (__m256)x;
}
HF_INTRINSIC __m256i _mm256_castps_si256(__m256 x) {
  return (__m256i)x;
}
HF_INTRINSIC __m128i _mm256_castsi256_si128(__m256i x) {
  return _mm256_extracti128_si256(x, 0);
}
HF_INTRINSIC __m128 _mm256_castps256_ps128(__m256 x) {
  return _mm256_extractf128_ps(x, 0);
}
HF_INTRINSIC __m256i _mm256_cmpgt_epi32(__m256i a, __m256i b) {
  return (__m256i)((HfInts8)a > (HfInts8)b);
}
HF_INTRINSIC __m256i _mm256_add_epi32(__m256i a, __m256i b) {
  return (__m256i)((HfUnsigned8)a + (HfUnsigned8)b);
}
HF_INTRINSIC __m256i _mm256_slli_epi32(__m256i x, int bits) {
  return (__m256i)((HfUnsigned8)x << bits);
}
HF_INTRINSIC __m256i _mm256_srli_epi32(__m256i x, int bits) {
  return (__m256i)((HfUnsigned8)x >> bits);
}
HF_INTRINSIC __m256i _mm256_and_si256(__m256i a, __m256i b) {
  return a & b;
}
HF_INTRINSIC __m256i _mm256_or_si256(__m256i a, __m256i b) {
  return a | b;
}
HF_INTRINSIC __m256i _mm256_andnot_si256(__m256i a, __m256i b) {
  return ~a & b;
}
HF_INTRINSIC __m256i _mm256_cvtepu16_epi32(__m128i x) {
  return (__m256i)__builtin_ia32_pmovzxwd256((HfShorts8)x);
}
HF_INTRINSIC __m256 _mm256_cvtph_ps(__m128i x) {
  return __builtin_ia32_vcvtph2ps256((HfShorts8)x);
}
HF_INTRINSIC __m256 _mm256_blendv_ps(__m256 a, __m256 b, __m256 choose_b) {
  return __builtin_ia32_blendvps256(a, b, choose_b);
}
HF_INTRINSIC __m256 _mm256_fmadd_ps(__m256 a, __m256 b, __m256 c) {
  return __builtin_ia32_vfmaddps256(a, b, c);
}
HF_INTRINSIC __m256 _mm256_max_ps(__m256 a, __m256 b) {
  return __builtin_ia32_maxps256(a, b);
}
HF_INTRINSIC __m256 _mm256_min_ps(__m256 a, __m256 b) {
  return __builtin_ia32_minps256(a, b);
}
HF_INTRINSIC __m256 _mm256_unpacklo_ps(__m256 a, __m256 b) {
  return __builtin_ia32_unpcklps256(a, b);
}
HF_INTRINSIC __m256 _mm256_unpackhi_ps(__m256 a, __m256 b) {
  return __builtin_ia32_unpckhps256(a, b);
}

#if defined(__AVX512F__)
#include "cpu/intrinsics_avx512.h"
#endif

#endif
