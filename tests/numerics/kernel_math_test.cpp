// How exact the vector functions of the CPU kernels are.
#include "kernel_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace hipflash::numerics {
namespace {

constexpr std::size_t kMostLanes = 16;
using Lanes = std::array<float, kMostLanes>;
using Function = void (*)(const float* in, float* out);

float at(Function function, float x) {
  alignas(64) Lanes in, out = {};
  in.fill(x);
  function(in.data(), out.data());
  return out[0];
}

double worst_relative_error(Function function, std::size_t lanes, double (*exact)(double),
                            float begin, float end) {
  const float step = (end - begin) / 400000.0f;
  double worst = 0.0;
  for (float x = begin; x < end; x += step * static_cast<float>(lanes)) {
    alignas(64) Lanes in = {}, out = {};
    for (std::size_t i = 0; i < lanes; ++i) {
      in[i] = std::min(x + step * static_cast<float>(i), end);
    }
    function(in.data(), out.data());
    for (std::size_t i = 0; i < lanes; ++i) {
      const double want = exact(in[i]);
      worst = std::max(worst, std::fabs(out[i] - want) / std::fabs(want));
    }
  }
  return worst;
}

// Errors of a few units in the last place (6e-8): of a probability, and of a capped score.
void expect_exact(const VectorMath& math, std::size_t lanes) {
  ASSERT_EQ(math.lanes, static_cast<int>(lanes));
  const auto exp2_error = [&](float begin, float end) {
    return worst_relative_error(math.exp2, lanes, std::exp2, begin, end);
  };
  EXPECT_LT(exp2_error(-30.0f, 0.5f), 2e-7);
  EXPECT_LT(exp2_error(-1.0f, 0.0f), 2e-7);
  EXPECT_LT(exp2_error(-125.0f, -30.0f), 2e-7);
  EXPECT_LT(exp2_error(0.5f, 127.0f), 2e-7);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(at(math.exp2, -kInf), 0.0f);
  EXPECT_EQ(at(math.exp2, -1e30f), 0.0f);
  EXPECT_GE(at(math.exp2, 1e30f), 0x1p127f);
  EXPECT_TRUE(std::isnan(at(math.exp2, std::numeric_limits<float>::quiet_NaN())));

  EXPECT_LT(worst_relative_error(math.tanh, lanes, std::tanh, 1e-3f, 1.0f), 3e-7);
  EXPECT_LT(worst_relative_error(math.tanh, lanes, std::tanh, -12.0f, -0.5f), 3e-7);
}

TEST(KernelMath, Portable) {
  expect_exact(portable_math(), 8);
}

#if defined(__x86_64__)
TEST(KernelMath, Avx2) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU has no AVX2";
  expect_exact(avx2_math(), 8);
}

TEST(KernelMath, Avx512) {
  if (!__builtin_cpu_supports("avx512vl")) GTEST_SKIP() << "this CPU has no AVX-512";
  expect_exact(avx512_math(), 16);
}
#endif

}  // namespace
}  // namespace hipflash::numerics
