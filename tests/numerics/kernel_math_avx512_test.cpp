// The vector functions of the CPU kernels with AVX512.
#include "kernel_math.h"

// Clang's counterpart of this pragma does not define the macros that simd.h looks at.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#include "cpu/simd.h"

namespace hipflash::numerics {
namespace {

void exp2_lanes(const float* in, float* out) {
  store(out, exp2(load(in)));
}
void tanh_lanes(const float* in, float* out) {
  store(out, hf_tanh(load(in)));
}

}  // namespace
}  // namespace hipflash::numerics
#pragma GCC pop_options

namespace hipflash::numerics {
namespace {

TEST(KernelMath, Avx512) {
  if (!__builtin_cpu_supports("avx512vl")) GTEST_SKIP() << "this CPU has no AVX512";
  expect_exact_exp2({exp2_lanes, kLanes});
  expect_exact_tanh({tanh_lanes, kLanes});
}

}  // namespace
}  // namespace hipflash::numerics
#endif
