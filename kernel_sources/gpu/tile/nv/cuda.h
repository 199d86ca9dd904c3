// Words that every NVIDIA family uses: function qualifiers, arithmetic of one lane, lane groups,
// 16-bit pairs. Compiled by NVRTC, so nothing is included from the toolkit; or, with HF_HOST, by
// the host's compiler.
#pragma once

#define HF_DEVICE __device__ __forceinline__
#define HF_UNROLL _Pragma("unroll")

#if defined(HF_HOST)
#include "gpu/tile/nv/host.h"
#else
#include "gpu/tile/nv/ptx.h"
#endif

namespace hipflash {

#define kInfinity __int_as_float(0x7f800000)
constexpr bool kBf16 = Spec::element == ElementType::bf16;

constexpr int round_up(int x, int step) {
  return (x + step - 1) / step * step;
}
constexpr int ceil_div(int x, int y) {
  return (x + y - 1) / y;
}

HF_DEVICE float hf_abs(float x) {
  return fabsf(x);
}

// tanh.approx is right to 11 bits only, which a cap of 50 would turn into errors of 1e-2 in the
// scores; this form is right to 2e-7.
HF_DEVICE float hf_tanh(float x) {
  return 1.0f - 2.0f * reciprocal(1.0f + exp2_fast(x * (2.0f * 1.4426950408889634f)));
}

// Two 16-bit elements in a word, the first in the low half.
HF_DEVICE unsigned pack(float first, float second) {
  return pack_as<kBf16>(first, second);
}
HF_DEVICE float bfloat_to_float(unsigned short x) {
  return __uint_as_float((unsigned)x << 16);
}

// Reductions over the four lanes that hold one row of a matrix-product result.
HF_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
HF_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

HF_DEVICE void barrier() {
  __syncthreads();
}

// A truth value with a type of its own, so that a generic lambda is compiled for each.
template <bool kValue>
struct Constant {
  static constexpr bool value = kValue;
};

}  // namespace hipflash
