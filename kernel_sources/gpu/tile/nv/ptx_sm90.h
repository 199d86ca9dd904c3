// A function for each instruction of PTX that only sm_90a has: wgmma on swizzled shared tiles, TMA
// copies, mbarriers. host_sm90.h says what each means.
#pragma once

namespace hipflash {

// ---- barriers in shared memory

struct Barrier {
  unsigned address;

  HF_DEVICE void create(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals)
                 : "memory");
  }
  HF_DEVICE void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  // One arrival that also announces bytes which copies will deliver.
  HF_DEVICE void expect(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
                 : "memory");
  }
  HF_DEVICE void wait(int parity) const {
    asm volatile(
        "{.reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
        " @done bra.uni DONE; bra.uni AGAIN; DONE:}" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};
// Makes new barriers known to the copy engine.
HF_DEVICE void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Makes what threads wrote into shared memory known to products and copies.
HF_DEVICE void publish_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Groups of warps hand a turn round: group g waits at named barrier 1 + g, where its predecessor
// arrives.
HF_DEVICE void wait_turn(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}
HF_DEVICE void give_turn(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(group + 1) : "memory");
}

// ---- copies

// Copies a box of 64 columns whose first element is (column, row, head, batch); outside the tensor
// there are zeros.
HF_DEVICE void copy_box(unsigned to, const TensorMap& map, int column, int row, int head, int batch,
                        Barrier done) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(done.address)
      : "memory");
}
HF_DEVICE void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// ---- registers

template <int kCount>
HF_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
HF_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- products

HF_DEVICE void products_start() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
HF_DEVICE void products_issued() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
HF_DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Products run on while the program goes on: the compiler must not move a use of their accumulators
// across a wait, nor keep copies of them.
template <int N>
HF_DEVICE void pin(float (&c)[N]) {
  HF_UNROLL
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(c[i])::"memory");
}

// The instruction names every accumulator register, so its text depends on the width. HF_NAMES_k
// and HF_PLACES_k name the registers of 16 k columns.
#define HF_NAMES_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define HF_NAMES_2 HF_NAMES_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define HF_NAMES_3 HF_NAMES_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define HF_NAMES_4 HF_NAMES_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define HF_NAMES_5 HF_NAMES_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define HF_NAMES_6 HF_NAMES_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define HF_NAMES_7 HF_NAMES_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define HF_NAMES_8 HF_NAMES_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define HF_NAMES_9 HF_NAMES_8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define HF_NAMES_10 HF_NAMES_9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define HF_NAMES_11 HF_NAMES_10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define HF_NAMES_12 HF_NAMES_11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define HF_NAMES_13 HF_NAMES_12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define HF_NAMES_14 HF_NAMES_13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define HF_NAMES_15 HF_NAMES_14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define HF_NAMES_16 HF_NAMES_15 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define HF_EIGHT(i)                                                                           \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define HF_PLACES_1 HF_EIGHT(0)
#define HF_PLACES_2 HF_PLACES_1, HF_EIGHT(8)
#define HF_PLACES_3 HF_PLACES_2, HF_EIGHT(16)
#define HF_PLACES_4 HF_PLACES_3, HF_EIGHT(24)
#define HF_PLACES_5 HF_PLACES_4, HF_EIGHT(32)
#define HF_PLACES_6 HF_PLACES_5, HF_EIGHT(40)
#define HF_PLACES_7 HF_PLACES_6, HF_EIGHT(48)
#define HF_PLACES_8 HF_PLACES_7, HF_EIGHT(56)
#define HF_PLACES_9 HF_PLACES_8, HF_EIGHT(64)
#define HF_PLACES_10 HF_PLACES_9, HF_EIGHT(72)
#define HF_PLACES_11 HF_PLACES_10, HF_EIGHT(80)
#define HF_PLACES_12 HF_PLACES_11, HF_EIGHT(88)
#define HF_PLACES_13 HF_PLACES_12, HF_EIGHT(96)
#define HF_PLACES_14 HF_PLACES_13, HF_EIGHT(104)
#define HF_PLACES_15 HF_PLACES_14, HF_EIGHT(112)
#define HF_PLACES_16 HF_PLACES_15, HF_EIGHT(120)

// c = a . b^T (add = 0) or c += a . b^T, both operands in shared memory with the summed dimension
// contiguous: scores. A0, A1, A2 are the numbers of the operands after the accumulators.
#define HF_WGMMA_SCORES(K, WIDTH, TYPE, A0, A1, A2)                                \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %" #A2                               \
               ", 0;"                                                              \
               "wgmma.mma_async.sync.aligned.m64n" #WIDTH "k16.f32." TYPE "." TYPE \
               " {" HF_NAMES_##K                                                   \
               "}, "                                                               \
               "%" #A0 ", %" #A1 ", p, 1, 1, 0, 0;}"                               \
               : HF_PLACES_##K                                                     \
               : "l"(a), "l"(b), "r"(add))
// c += a . b, a in registers, b in shared memory with its columns contiguous: outputs.
#define HF_WGMMA_OUTPUTS(K, WIDTH, TYPE, A0, A1, A2, A3, A4)                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #WIDTH "k16.f32." TYPE "." TYPE \
               " {" HF_NAMES_##K                                                   \
               "}, "                                                               \
               "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 ", 1, 1, 1, 1;"   \
               : HF_PLACES_##K                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <int kColumns>
struct Wgmma;

#define HF_WGMMA(K, WIDTH, N, A0, A1, A2, A3, A4)                                                \
  template <>                                                                                    \
  struct Wgmma<WIDTH> {                                                                          \
    static HF_DEVICE void scores(float (&c)[N], unsigned long long a, unsigned long long b,      \
                                 int add) {                                                      \
      if constexpr (kBf16)                                                                       \
        HF_WGMMA_SCORES(K, WIDTH, "bf16", A0, A1, A2);                                           \
      else                                                                                       \
        HF_WGMMA_SCORES(K, WIDTH, "f16", A0, A1, A2);                                            \
    }                                                                                            \
    static HF_DEVICE void outputs(float (&c)[N], const unsigned (&a)[4], unsigned long long b) { \
      if constexpr (kBf16)                                                                       \
        HF_WGMMA_OUTPUTS(K, WIDTH, "bf16", A0, A1, A2, A3, A4);                                  \
      else                                                                                       \
        HF_WGMMA_OUTPUTS(K, WIDTH, "f16", A0, A1, A2, A3, A4);                                   \
    }                                                                                            \
  };

HF_WGMMA(1, 16, 8, 8, 9, 10, 11, 12)
HF_WGMMA(2, 32, 16, 16, 17, 18, 19, 20)
HF_WGMMA(3, 48, 24, 24, 25, 26, 27, 28)
HF_WGMMA(4, 64, 32, 32, 33, 34, 35, 36)
HF_WGMMA(5, 80, 40, 40, 41, 42, 43, 44)
HF_WGMMA(6, 96, 48, 48, 49, 50, 51, 52)
HF_WGMMA(7, 112, 56, 56, 57, 58, 59, 60)
HF_WGMMA(8, 128, 64, 64, 65, 66, 67, 68)
HF_WGMMA(9, 144, 72, 72, 73, 74, 75, 76)
HF_WGMMA(10, 160, 80, 80, 81, 82, 83, 84)
HF_WGMMA(11, 176, 88, 88, 89, 90, 91, 92)
HF_WGMMA(12, 192, 96, 96, 97, 98, 99, 100)
HF_WGMMA(13, 208, 104, 104, 105, 106, 107, 108)
HF_WGMMA(14, 224, 112, 112, 113, 114, 115, 116)
HF_WGMMA(15, 240, 120, 120, 121, 122, 123, 124)
HF_WGMMA(16, 256, 128, 128, 129, 130, 131, 132)

#undef HF_WGMMA
#undef HF_WGMMA_SCORES
#undef HF_WGMMA_OUTPUTS

}  // namespace hipflash
