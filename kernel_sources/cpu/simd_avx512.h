// AVX-512 (F, BW, DQ, VL) words, and those of AVX-512 BF16 when the options have it.
#pragma once

namespace hipflash {

using Vec = __m512;
constexpr int kLanes = 16;

HF_DEVICE __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>((1u << n) - 1);
}

HF_DEVICE Vec from_f16(__m256i x) {
  return _mm512_cvtph_ps(x);
}
HF_DEVICE Vec from_bf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
HF_DEVICE __m256i to_f16(Vec x) {
  return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}
// Round to nearest even; a NaN stays a NaN.
HF_DEVICE __m256i to_bf16(Vec x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

HF_DEVICE Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
HF_DEVICE Vec load(const F16* p) {
  return from_f16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HF_DEVICE Vec load(const Bf16* p) {
  return from_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HF_DEVICE Vec load_first(const float* p, int n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
HF_DEVICE Vec load_first(const F16* p, int n) {
  return from_f16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
HF_DEVICE Vec load_first(const Bf16* p, int n) {
  return from_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}

HF_DEVICE void store(float* p, Vec x) {
  _mm512_storeu_ps(p, x);
}
HF_DEVICE void store(F16* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_f16(x));
}
HF_DEVICE void store(Bf16* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(x));
}
HF_DEVICE void store_first(float* p, Vec x, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), x);
}
HF_DEVICE void store_first(F16* p, Vec x, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_f16(x));
}
HF_DEVICE void store_first(Bf16* p, Vec x, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_bf16(x));
}

HF_DEVICE void stream(float* p, Vec x) {
  _mm512_stream_ps(p, x);
}
HF_DEVICE void stream(F16* p, Vec x) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), to_f16(x));
}
HF_DEVICE void end_stream() {
  _mm_sfence();
}

HF_DEVICE Vec broadcast(float x) {
  return _mm512_set1_ps(x);
}
HF_DEVICE Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
// The second operand where either is NaN.
HF_DEVICE Vec max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
HF_DEVICE float reduce_max(Vec x) {
  return _mm512_reduce_max_ps(x);
}
HF_DEVICE float reduce_add(Vec x) {
  return _mm512_reduce_add_ps(x);
}
HF_DEVICE bool any_above(Vec x, float limit) {
  return _mm512_cmp_ps_mask(x, broadcast(limit), _CMP_GT_OQ) != 0;
}

// x in lanes first <= lane < end, else `other`.
HF_DEVICE Vec keep_lanes(Vec x, int first, int end, Vec other) {
  const __mmask16 keep = static_cast<__mmask16>(first_lanes(end) & ~first_lanes(first));
  return _mm512_mask_blend_ps(keep, other, x);
}

// 2^x; 0 for -infinity, NaN for NaN. vreduceps leaves the fraction above the
// floor (0 for an infinity) and vscalefps multiplies by 2^floor, so nothing needs clamping. The
// polynomial is a minimax one over [0, 1] with p(0) = 1; its relative error is 8.3e-8.
HF_DEVICE Vec exp2(Vec x) {
  const Vec f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vec p = broadcast(1.8671300701e-3f);
  p = fma(p, f, broadcast(9.0170303217e-3f));
  p = fma(p, f, broadcast(5.5799913104e-2f));
  p = fma(p, f, broadcast(2.4016445015e-1f));
  p = fma(p, f, broadcast(6.9315131180e-1f));
  p = fma(p, f, broadcast(1.0f));
  return _mm512_scalef_ps(p, x);
}

HF_DEVICE float to_float(F16 x) {
  return _cvtsh_ss(x.bits);
}

HF_DEVICE Vec interleave_low(Vec a, Vec b) {
  const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_ps(a, order, b);
}
HF_DEVICE Vec interleave_high(Vec a, Vec b) {
  const __m512i order =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_ps(a, order, b);
}

#if defined(__AVX512BF16__)
// Two bf16 of neighbouring k, the lower k in the lower half.
struct Unit {
  unsigned bits;
};
using VecUnit = __m512bh;
constexpr int kUnitElements = 2;
HF_DEVICE VecUnit load_units(const Unit* p) {
  return (__m512bh)_mm512_loadu_si512(p);
}
HF_DEVICE VecUnit broadcast_unit(const Unit* p) {
  return (__m512bh)_mm512_set1_epi32(static_cast<int>(p->bits));
}
HF_DEVICE Vec multiply_add(VecUnit a, VecUnit b, Vec c) {
  return _mm512_dpbf16_ps(c, a, b);
}

// Units of one row along the head dimension, as bits; `elements` of them exist.
HF_DEVICE Vec load_row_units(const Bf16* p, int elements) {
  if (elements >= 2 * kLanes) return _mm512_castsi512_ps(_mm512_loadu_si512(p));
  return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((1u << elements) - 1, p));
}
// Units that pair one element of each of two rows; lanes beyond `elements` are 0.
HF_DEVICE Vec pair_rows(const Bf16* low, const Bf16* high, int elements) {
  const __mmask16 lanes = elements >= kLanes ? 0xffff : first_lanes(elements);
  const __m512i a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, low));
  const __m512i b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, high));
  return _mm512_castsi512_ps(_mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}
// By 1 or -1.
HF_DEVICE Vec multiply_units(Vec units, float factor) {
  return factor < 0
             ? _mm512_castsi512_ps(_mm512_xor_si512(
                   _mm512_castps_si512(units), _mm512_set1_epi32(static_cast<int>(0x80008000u))))
             : units;
}
// Gathers in `check` whether an infinity or a NaN is among units; start from broadcast(0).
HF_DEVICE Vec check_finite(Vec check, Vec units) {
  const __m512i exponent = _mm512_and_si512(_mm512_castps_si512(units), _mm512_set1_epi16(0x7f80));
  return _mm512_castsi512_ps(_mm512_max_epu16(_mm512_castps_si512(check), exponent));
}
HF_DEVICE bool all_finite(Vec check) {
  return _mm512_cmpeq_epi16_mask(_mm512_castps_si512(check), _mm512_set1_epi16(0x7f80)) == 0;
}
// Vectors of probabilities, in order, as units along the key.
template <int Vectors>
HF_DEVICE void store_probabilities(Unit* to, const Vec (&p)[Vectors]) {
  HF_UNROLL for (int v = 0; v < Vectors; v += 2) {
    _mm512_storeu_si512(to + v / 2 * kLanes, (__m512i)_mm512_cvtne2ps_pbh(p[v + 1], p[v]));
  }
}
#endif

}  // namespace hipflash
