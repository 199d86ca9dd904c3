// The vector functions of the CPU kernels in their portable form.
#include "kernel_math.h"

// Vectors wider than the target's go through memory; nothing here crosses files.
#pragma GCC diagnostic ignored "-Wpsabi"
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

namespace hipflash::numerics {
namespace {

TEST(KernelMath, Portable) {
  expect_exact_exp2({exp2_lanes, kLanes});
  expect_exact_tanh({tanh_lanes, kLanes});
}

}  // namespace
}  // namespace hipflash::numerics
