// The functions of kernel_math.h for the instruction set that the including file is compiled for.
// Includes no system header: what those define inline must not be compiled for other CPUs.
#pragma once

#include "cpu/simd.h"
#include "kernel_math.h"

namespace hipflash::numerics {

static void exp2_lanes(const float* in, float* out) {
  store(out, hipflash::exp2(load(in)));
}
static void tanh_lanes(const float* in, float* out) {
  store(out, hf_tanh(load(in)));
}
static constexpr VectorMath kVectorMath = {kLanes, exp2_lanes, tanh_lanes};

}  // namespace hipflash::numerics
