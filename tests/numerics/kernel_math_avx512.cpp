#include "kernel_math_lanes.h"

#if !defined(__AVX512F__)
#error "not compiled for AVX-512"
#endif

hipflash::numerics::VectorMath hipflash::numerics::avx512_math() {
  return kVectorMath;
}
