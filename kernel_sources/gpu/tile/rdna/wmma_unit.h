// The instructions that attention_forward_rdna.hip uses beyond those of all AMD GPUs: matrix
// products, exchange of half waves. tile/rdna/host_wmma.h has the same words for the host.
#pragma once

#include "gpu/tile/amd/hip.h"

#if defined(__GFX12__)
#define HF_WMMA_GENERATION 12
#else
#define HF_WMMA_GENERATION 11
#endif

namespace hipflash {

using i16x8 = short __attribute__((ext_vector_type(8)));
using i16x16 = short __attribute__((ext_vector_type(16)));
using f16x8 = _Float16 __attribute__((ext_vector_type(8)));
using f16x16 = _Float16 __attribute__((ext_vector_type(16)));

// A lane's share of a 16x16 result: rows 8 (lane / 16) + 0..7 of column lane % 16.
using Accumulator = f32x8;

// The matrix product a b + c. What a lane holds of each: wmma_gfx11.h, wmma_gfx12.h.
#if HF_WMMA_GENERATION == 12
HF_DEVICE Accumulator mma(u32x4 a, u32x4 b, Accumulator c) {
  if constexpr (Spec::element == ElementType::bf16) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(i16x8, a),
                                                             __builtin_bit_cast(i16x8, b), c);
  } else {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(f16x8, a),
                                                            __builtin_bit_cast(f16x8, b), c);
  }
}
#else
HF_DEVICE Accumulator mma(u32x8 a, u32x8 b, Accumulator c) {
  if constexpr (Spec::element == ElementType::bf16) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(i16x16, a),
                                                       __builtin_bit_cast(i16x16, b), c);
  } else {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(f16x16, a),
                                                      __builtin_bit_cast(f16x16, b), c);
  }
}
#endif

// The value in the same column of the other half wave. With both flags set the instruction keeps no
// old value, so the compiler copies none.
HF_DEVICE u32 other_half(u32 x) {
  return __builtin_amdgcn_permlanex16(x, x, 0x76543210, 0xfedcba98, true, true);
}

// Bit i: the condition holds in lane i.
HF_DEVICE u32 ballot(bool condition) {
  return __builtin_amdgcn_ballot_w32(condition);
}

// The compiler must have the value here. Products are no memory accesses, so it may otherwise
// collect them behind many loads of operands, all of them in registers.
HF_DEVICE void settle(Accumulator& x) {
  asm volatile("" : "+v"(x));
}

// x, of which the compiler knows nothing.
HF_DEVICE int opaque(int x) {
  asm("" : "+v"(x));
  return x;
}

}  // namespace hipflash
