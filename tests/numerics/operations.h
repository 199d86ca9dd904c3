// What the tests of append_kv() and merge_partials() share. Each program says where they run.
#pragma once

#include <gtest/gtest.h>

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

inline Block block_of(OwnedTensor& tensor, bool written = false) {
  return {tensor.memory().data(), tensor.memory().size(), written};
}
template <class T>
Block block_of(std::vector<T>& data, bool written = false) {
  return {data.data(), data.size() * sizeof(T), written};
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
