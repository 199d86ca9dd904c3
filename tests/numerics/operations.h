// What the tests of append_kv() and merge_partials() share. Each program says where they run.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "numerics/attention_case.h"
#include "numerics/target.h"

namespace hipflash::testing {

// Calls that are small enough for an emulated device.
class SmallOperations : public ::testing::TestWithParam<std::string> {
 protected:
  Target& here() { return target(GetParam()); }
};
// Calls that are not.
using FullOperations = SmallOperations;

inline std::vector<float> values_of(const OwnedTensor& t) {
  std::vector<float> values;
  for (std::int64_t b = 0; b < t.view().batch; ++b) {
    for (std::int64_t s = 0; s < t.view().seq; ++s) {
      for (std::int64_t h = 0; h < t.view().heads; ++h) {
        for (std::int64_t d = 0; d < t.view().dim; ++d) values.push_back(t.get(b, s, h, d));
      }
    }
  }
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

inline Block block_of(OwnedTensor& tensor, bool written = false) {
  return block_of(tensor.memory(), written);
}

// The tensor as the device sees it.
inline Tensor on_device(const Tensor& host, const Target::Translate& translate) {
  Tensor device = host;
  device.data = translate(host.data);
  return device;
}

// Half of the distance of neighbouring numbers of this size.
inline double rounding(DType dtype, double x) {
  const double unit = dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
  return std::max(std::abs(x) * unit, dtype == DType::f16 ? 0x1p-25 : 0.0);
}

}  // namespace hipflash::testing
