// The vector functions of the CPU kernels, one instruction set for each file that includes
// kernel_math_lanes.h and is compiled for it.
#pragma once

namespace hipflash::numerics {

struct VectorMath {
  int lanes;                                  // floats that a function maps at once
  void (*exp2)(const float* in, float* out);  // these must not lie in each other
  void (*tanh)(const float* in, float* out);
};

VectorMath portable_math();
VectorMath avx2_math();    // for CPUs that have it
VectorMath avx512_math();  // likewise

}  // namespace hipflash::numerics
