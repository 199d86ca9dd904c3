// Words that every NVIDIA family uses: function qualifiers, arithmetic of one lane, lane groups,
// 16-bit pairs. Compiled by NVRTC, so nothing is included from the toolkit.
#pragma once

#define HF_DEVICE __device__ __forceinline__
#define HF_UNROLL _Pragma("unroll")

namespace hipflash {

#define kInfinity __int_as_float(0x7f800000)
constexpr bool kBf16 = Spec::element == ElementType::bf16;

constexpr int round_up(int x, int step) {
  return (x + step - 1) / step * step;
}
constexpr int ceil_div(int x, int y) {
  return (x + y - 1) / y;
}

// A number that the compiler knows nothing about, so that what follows from it is computed again in
// each step: kept from one step to the next it would fill the registers.
HF_DEVICE int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

HF_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
HF_DEVICE float log2_fast(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
HF_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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
  unsigned word;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
}

HF_DEVICE float half_to_float(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
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

HF_DEVICE unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

}  // namespace hipflash
