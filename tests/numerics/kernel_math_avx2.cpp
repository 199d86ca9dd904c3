#include "kernel_math_lanes.h"

#if !defined(__AVX2__) || defined(__AVX512F__)
#error "not compiled for AVX2"
#endif

hipflash::numerics::VectorMath hipflash::numerics::avx2_math() {
  return kVectorMath;
}
