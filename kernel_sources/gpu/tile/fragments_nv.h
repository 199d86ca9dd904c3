// Fragments of matrices of 16-bit elements, sm_80 and up: ldmatrix and mma.sync m16n8k16.
#pragma once

namespace hipflash {

// Four 8 x 8 matrices, of which lane i addresses row i % 8 of number i / 8.
template <bool kTransposed>
HF_DEVICE void read_block(unsigned (&x)[4], unsigned from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from));
  }
}

// Products of f16, or bf16: c += a . b, or c = a . b (which costs no registers to clear).

#define HF_MMA(TYPE, ADDEND)                             \
  "mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE \
  ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " ADDEND ";"

template <bool kIsBf16>
HF_DEVICE void mma_of(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (kIsBf16) {
    asm(HF_MMA("bf16", "{%0,%1,%2,%3}")
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm(HF_MMA("f16", "{%0,%1,%2,%3}")
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
template <bool kIsBf16>
HF_DEVICE void mma_first_of(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (kIsBf16) {
    asm(HF_MMA("bf16", "{%10,%10,%10,%10}")
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
  } else {
    asm(HF_MMA("f16", "{%10,%10,%10,%10}")
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
  }
}
#undef HF_MMA

}  // namespace hipflash
