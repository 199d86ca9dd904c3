// Matrix products of CDNA: gfx908, gfx90a, gfx942, gfx950.
//
// One fragment of each side feeds one to four instructions, each with its part of every lane's
// chunk.
#pragma once

namespace hipflash {

using f16x4 = _Float16 __attribute__((ext_vector_type(4)));
using f16x8 = _Float16 __attribute__((ext_vector_type(8)));
using s16x2 = short __attribute__((ext_vector_type(2)));
using s16x4 = short __attribute__((ext_vector_type(4)));

// Part i of a chunk, as an instruction takes it.
template <class Operand>
HF_DEVICE Operand part_of(u32x4 chunk, int i) {
  if constexpr (sizeof(Operand) == 16) {
    return __builtin_bit_cast(Operand, chunk);
  } else if constexpr (sizeof(Operand) == 8) {
    const u32x2 half = {chunk[2 * i], chunk[2 * i + 1]};
    return __builtin_bit_cast(Operand, half);
  } else {
    const u32 word = chunk[i];
    return __builtin_bit_cast(Operand, word);
  }
}

template <int Rows, ElementType Element>
struct Product;

#define HF_PRODUCT(rows, element, Operand, instruction)                                   \
  template <>                                                                             \
  struct Product<rows, ElementType::element> {                                            \
    using Result = float __attribute__((ext_vector_type(rows * rows / 64)));              \
    static constexpr int kParts = 16 / sizeof(Operand);                                   \
    static HF_MEMBER Result part(int i, u32x4 a, u32x4 b, Result c) {                     \
      return __builtin_amdgcn_mfma_f32_##instruction(part_of<Operand>(a, i),              \
                                                     part_of<Operand>(b, i), c, 0, 0, 0); \
    }                                                                                     \
  }

HF_PRODUCT(32, f32, float, 32x32x2f32);
HF_PRODUCT(16, f32, float, 16x16x4f32);
#if defined(__gfx950__)
using bf16x8 = __bf16 __attribute__((ext_vector_type(8)));
HF_PRODUCT(32, f16, f16x8, 32x32x16_f16);
HF_PRODUCT(16, f16, f16x8, 16x16x32_f16);
HF_PRODUCT(32, bf16, bf16x8, 32x32x16_bf16);
HF_PRODUCT(16, bf16, bf16x8, 16x16x32_bf16);
#else
HF_PRODUCT(32, f16, f16x4, 32x32x8f16);
HF_PRODUCT(16, f16, f16x4, 16x16x16f16);
#if defined(__gfx908__)
HF_PRODUCT(32, bf16, s16x2, 32x32x4bf16);
HF_PRODUCT(16, bf16, s16x2, 16x16x8bf16);
#else
HF_PRODUCT(32, bf16, s16x4, 32x32x8bf16_1k);
HF_PRODUCT(16, bf16, s16x4, 16x16x16bf16_1k);
#endif
#endif
#undef HF_PRODUCT

// c + a * b over kSlab elements.
HF_DEVICE Accumulator mma(u32x4 a, u32x4 b, Accumulator c) {
  using P = Product<kRows, Spec::element>;
  HF_UNROLL for (int i = 0; i < P::kParts; i++) c = P::part(i, a, b, c);
  return c;
}

// a * b. The compiler keeps a block of zeros in registers for a product that starts from 0,
// although the instruction takes the constant; so where registers are short the first part is
// assembly. It waits the two states that are due after a vector instruction wrote an operand, of
// which the compiler takes no note here. The next part takes exactly its result registers as its
// own, so none are due in between.
HF_DEVICE Accumulator mma_first(u32x4 a, u32x4 b) {
#if defined(__gfx90a__) || defined(__gfx942__)
  using P = Product<kRows, Spec::element>;
  if constexpr (!kF32) {
    Accumulator c;
    const u32x2 x = part_of<u32x2>(a, 0), y = part_of<u32x2>(b, 0);
    if constexpr (kRows == 32 && kF16) {
      asm("s_nop 1\n\tv_mfma_f32_32x32x8f16 %0, %1, %2, 0" : "=&v"(c) : "v"(x), "v"(y));
    } else if constexpr (kRows == 32) {
      asm("s_nop 1\n\tv_mfma_f32_32x32x8bf16_1k %0, %1, %2, 0" : "=&v"(c) : "v"(x), "v"(y));
    } else if constexpr (kF16) {
      asm("s_nop 1\n\tv_mfma_f32_16x16x16f16 %0, %1, %2, 0" : "=&v"(c) : "v"(x), "v"(y));
    } else {
      asm("s_nop 1\n\tv_mfma_f32_16x16x16bf16_1k %0, %1, %2, 0" : "=&v"(c) : "v"(x), "v"(y));
    }
    HF_UNROLL for (int i = 1; i < P::kParts; i++) c = P::part(i, a, b, c);
    return c;
  }
#elif defined(__gfx950__)
  // (a single product may be read at once, of which the compiler must know)
  if constexpr (!kF32 && kRows == 32 && kHeadSlabs > 1) {
    Accumulator c;
    if constexpr (kF16) {
      asm("s_nop 1\n\tv_mfma_f32_32x32x16_f16 %0, %1, %2, 0" : "=&v"(c) : "v"(a), "v"(b));
    } else {
      asm("s_nop 1\n\tv_mfma_f32_32x32x16_bf16 %0, %1, %2, 0" : "=&v"(c) : "v"(a), "v"(b));
    }
    return c;
  }
#endif
  Accumulator zero;
  HF_UNROLL for (int r = 0; r < kResults; r++) zero[r] = 0.0f;
  return mma(a, b, zero);
}

}  // namespace hipflash
