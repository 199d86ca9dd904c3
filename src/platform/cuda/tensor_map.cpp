#include "platform/cuda/tensor_map.h"

#include <dlfcn.h>

#include "core/fail.h"

namespace hipflash::platform {
namespace {

using Encode = int (*)(TensorMap*, int type, unsigned rank, void* address,
                       const unsigned long long* dims, const unsigned long long* strides,
                       const unsigned* box, const unsigned* element_strides, int interleave,
                       int swizzle, int promotion, int fill);

Encode encoder() {
  static const Encode function = [] {
    // libcuda is open already: whoever encodes a map has a device.
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Encode>(library ? ::dlsym(library, "cuTensorMapEncodeTiled") : nullptr);
  }();
  if (!function) {
    fail(ErrorCode::LaunchFailed, "cuda: the driver is too old: it has no cuTensorMapEncodeTiled");
  }
  return function;
}

}  // namespace

TensorMap encode(const Sm90Map& map, bool bf16) {
  constexpr int kFloat16 = 6, kBfloat16 = 9, kNoInterleave = 0, kSwizzle128 = 3, kPromote256 = 3,
                kFillZeros = 0;
  constexpr unsigned kSteps[4] = {1, 1, 1, 1};
  TensorMap encoded = {};
  const int result =
      encoder()(&encoded, bf16 ? kBfloat16 : kFloat16, 4, const_cast<void*>(map.base), map.dims,
                map.strides, map.box, kSteps, kNoInterleave, kSwizzle128, kPromote256, kFillZeros);
  if (result != 0) {
    fail(ErrorCode::LaunchFailed, "cuda: cuTensorMapEncodeTiled refuses a tensor ({})", result);
  }
  return encoded;
}

}  // namespace hipflash::platform
