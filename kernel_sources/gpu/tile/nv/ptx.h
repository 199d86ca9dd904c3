// What CUDA C++ has no words for: a function for each instruction of PTX that the NVIDIA families
// use, sm_80 and up (those of sm_90a alone are in ptx_sm90.h). host.h says what each means.
#pragma once

// The block's dynamic shared memory.
#define HF_SHARED_BYTES(name) extern __shared__ __align__(128) unsigned char name[]

namespace hipflash {

using u32 = unsigned;
using u16 = unsigned short;

HF_DEVICE u32 bits(float x) {
  return __float_as_uint(x);
}
HF_DEVICE float from_bits(u32 x) {
  return __uint_as_float(x);
}

// ---- arithmetic of one lane ---------------------------------------------------------------------

// A number that the compiler knows nothing about, so that what follows from it is computed again in
// each step: kept from one step to the next it would fill the registers.
HF_DEVICE int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
// threadIdx.x and blockIdx.x, read anew each time, so that nothing that follows from them is kept
// in registers over a loop.
HF_DEVICE int fresh_thread() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
HF_DEVICE int fresh_block() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
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

// Two 16-bit elements in a word, the first in the low half.
template <bool kIsBf16>
HF_DEVICE unsigned pack_as(float first, float second) {
  unsigned word;
  if constexpr (kIsBf16) {
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

// ---- shared memory ------------------------------------------------------------------------------

HF_DEVICE unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

HF_DEVICE void store_element(unsigned to, unsigned short x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(x) : "memory");
}
HF_DEVICE void store_word(unsigned to, int x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
HF_DEVICE void store_word(unsigned to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}
HF_DEVICE void store_words(unsigned to, int x, int y) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}
HF_DEVICE void store_words(unsigned to, int x, int y, int z, int w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
HF_DEVICE void store_words(unsigned to, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}
HF_DEVICE void store_longs(unsigned to, long long x, long long y) {
  asm volatile("st.shared.v2.u64 [%0], {%1, %2};" ::"r"(to), "l"(x), "l"(y) : "memory");
}

HF_DEVICE void load_word(int& x, unsigned from) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
}
HF_DEVICE void load_words(int& x, int& y, unsigned from) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(from) : "memory");
}
HF_DEVICE void load_words(int& x, int& y, int& z, int& w, unsigned from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
               : "r"(from)
               : "memory");
}
HF_DEVICE long long load_long(unsigned from) {
  long long x;
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(x) : "r"(from) : "memory");
  return x;
}
HF_DEVICE float load_float(unsigned from) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from));
  return x;
}
HF_DEVICE float2 load_pair(unsigned from) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from));
  return x;
}
HF_DEVICE float4 load_piece(unsigned from) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(from));
  return x;
}

// ---- asynchronous copies into shared memory -----------------------------------------------------

// Copies `bytes` (0 to 16) bytes and fills the rest of the 16 with zeros. What is read only once
// goes from the L2 cache before anything else.
template <bool kOnce = false>
HF_DEVICE void copy_piece(unsigned to, const char* from, int bytes) {
  if constexpr (kOnce) {
    unsigned long long first_out;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first_out));
    asm volatile(
        "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to),
        "l"(from), "r"(bytes), "l"(first_out)
        : "memory");
    return;
  }
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
}
// Copies four bytes, or writes four zeros.
HF_DEVICE void copy_word(unsigned to, const char* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 4 : 0)
               : "memory");
}
HF_DEVICE void copies_issued() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
HF_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- global memory ------------------------------------------------------------------------------

HF_DEVICE void load_global(unsigned (&x)[4], const void* from) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "l"(from));
}

// ---- threads that meet --------------------------------------------------------------------------

// A barrier of `kThreads` threads of a block, which say the same number, 1 to 15.
template <int kThreads>
HF_DEVICE void barrier_of(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
}

// A launch may begin while the one before it in its stream still runs: launch_next() lets it, where
// every block of this one has said so, and wait_for_launch_before() waits until that one is through
// with everything.
HF_DEVICE void launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
HF_DEVICE void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- matrices of 16-bit elements: ldmatrix, mma.sync m16n8k16 -----------------------------------

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
