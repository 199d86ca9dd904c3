// How exact the vector functions of the CPU kernels are, one instruction set for each file that
// includes "cpu/simd.h".
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace hipflash::numerics {

// `function` maps `lanes` floats at once.
struct VectorFunction {
  void (*function)(const float* in, float* out);
  int lanes;
};

inline double worst_relative_error(VectorFunction vector, double (*exact)(double), float begin,
                                   float end) {
  constexpr int kMostLanes = 16;
  const float step = (end - begin) / 400000.0f;
  double worst = 0.0;
  for (float x = begin; x < end; x += step * static_cast<float>(vector.lanes)) {
    float in[kMostLanes] = {}, out[kMostLanes] = {};
    for (int i = 0; i < vector.lanes; ++i) in[i] = x + step * static_cast<float>(i);
    vector.function(in, out);
    for (int i = 0; i < vector.lanes; ++i) {
      const double want = exact(in[i]);
      worst = std::max(worst, std::fabs(out[i] - want) / std::fabs(want));
    }
  }
  return worst;
}

// Errors of a few units in the last place (6e-8): of a probability, and of a capped score.
inline void expect_exact_exp2(VectorFunction exp2) {
  EXPECT_LT(worst_relative_error(exp2, std::exp2, -30.0f, 0.5f), 2e-7);
  EXPECT_LT(worst_relative_error(exp2, std::exp2, -1.0f, 0.0f), 2e-7);
}
inline void expect_exact_tanh(VectorFunction tanh) {
  EXPECT_LT(worst_relative_error(tanh, std::tanh, 1e-3f, 1.0f), 3e-7);
  EXPECT_LT(worst_relative_error(tanh, std::tanh, -12.0f, -0.5f), 3e-7);
}

}  // namespace hipflash::numerics
