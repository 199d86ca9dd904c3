// Products of f32 on matrix units that take tf32: mma.sync m16n8k8, sm_80 and up.
//
// An operand is the sum of two tf32 numbers, x = high + low to 22 bits, and of the product of two
// such sums all but low * low is computed. What is left out is below 2^-21 of the product and,
// since the low part of a rounded operand has either sign, near 0 on average.
#pragma once

namespace hipflash {

template <int N>
struct Parts {
  unsigned high[N], low[N];
};

// high has the 11 leading bits of x, rounded; low is the exact rest, which the unit cuts to 11
// bits. Where x is not finite, or rounds to infinity, low is not finite either.
HF_DEVICE void split(float x, unsigned& high, unsigned& low) {
  high = (__float_as_uint(x) + 0x1000u) & ~0x1fffu;
  low = __float_as_uint(x - __uint_as_float(high));
}

// The same for an operand that comes in place: the unit itself cuts high to its leading bits, so
// there is less to do. Only for one of two operands, see above.
HF_DEVICE void cut(unsigned x, unsigned& high, unsigned& low) {
  high = x;
  low = __float_as_uint(__uint_as_float(x) - __uint_as_float(x & ~0x1fffu));
}

// Four 8 x 4 blocks of 32-bit words, one row of 16 bytes at each lane's address.
HF_DEVICE void read_blocks(unsigned (&x)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(from));
}

HF_DEVICE void mma_tf32(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One of the three products: low . high, high . low, and high . high last. Three in a row that add
// to the same sum would wait for one another, so whoever has several sums alternates them.
constexpr int kProducts = 3;
HF_DEVICE void mma_product(int product, float* c, const Parts<4>& a, const Parts<2>& b) {
  const unsigned(&x)[4] = product == 0 ? a.low : a.high;
  const unsigned(&y)[2] = product == 1 ? b.low : b.high;
  mma_tf32(c, x, y[0], y[1]);
}

}  // namespace hipflash
