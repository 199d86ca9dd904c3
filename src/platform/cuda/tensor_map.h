// Tensor maps (CUtensorMap) of Hopper's copy engine.
#pragma once

#include "common/attention_args.h"
#include "gpu/tiles_nv.h"

namespace hipflash::platform {

// The driver's opaque 128 bytes.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// By the driver's cuTensorMapEncodeTiled: rank 4, 16-bit elements, 128-byte swizzle, zeros outside.
// Throws Error(LaunchFailed) if the driver refuses it.
TensorMap encode(const Sm90Map& map, bool bf16);

}  // namespace hipflash::platform
