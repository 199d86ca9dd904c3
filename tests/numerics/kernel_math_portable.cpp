#include "kernel_math_lanes.h"

hipflash::numerics::VectorMath hipflash::numerics::portable_math() {
  return kVectorMath;
}
