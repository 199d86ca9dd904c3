// Uses every public C++ header and checks one result in numbers.
#include <hipflash/attention.h>
#include <hipflash/cache.h>
#include <hipflash/context.h>
#include <hipflash/device.h>
#include <hipflash/error.h>
#include <hipflash/export.h>
#include <hipflash/problem.h>
#include <hipflash/tensor.h>
#include <hipflash/tuning.h>

#include <cmath>
#include <iostream>
#include <vector>

namespace {

// Two keys with scores 0 and ln 3: the softmax is 1/4 and 3/4, whatever else happens.
bool result_is_right() {
  const float ln3 = std::log(3.0f);
  const std::vector<float> q = {1.0f}, k = {0.0f, ln3}, v = {4.0f, 8.0f};
  std::vector<float> out(1), lse(1);
  const auto tensor = [](const std::vector<float>& data) {
    return hipflash::Tensor::bshd(data.data(), hipflash::DType::f32, 1,
                                  static_cast<std::int64_t>(data.size()), 1, 1);
  };
  hipflash::Context ctx(hipflash::parse_device("cpu"));
  hipflash::AttentionOptions options;
  options.lse.data = lse.data();
  hipflash::attention_forward(ctx, tensor(q), tensor(k), tensor(v), tensor(out), options);
  std::cout << "out " << out[0] << ", lse " << lse[0] << "\n";
  return std::abs(out[0] - 7.0f) < 1e-4f && std::abs(lse[0] - std::log(4.0f)) < 1e-4f;
}

// An error crosses the library's border as the documented type.
bool error_is_caught() {
  try {
    hipflash::Context ctx(hipflash::parse_device("abacus"));
  } catch (const hipflash::Error& error) {
    std::cout << hipflash::to_string(error.code()) << ": " << error.what() << "\n";
    return error.code() == hipflash::ErrorCode::InvalidArgument;
  }
  return false;
}

}  // namespace

int main() {
  return result_is_right() && error_is_caught() ? 0 : 1;
}
