// What the tests of the whole library on a GPU share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "numerics/attention_case.h"
#include "numerics/results.h"
#include "numerics/target.h"
#include "platform/gpu/driver.h"

namespace hipflash::testing {

// HIPFLASH_TEST_DEVICE, else the first GPU, else the CPU.
inline DeviceId test_device() {
  const char* const named = std::getenv("HIPFLASH_TEST_DEVICE");
  return named ? parse_device(named) : default_device();
}

inline platform::GpuDriver& driver() {
  return platform::gpu_driver(test_device().platform == Platform::hip ? platform::Kind::hip
                                                                      : platform::Kind::cuda);
}

inline Context& context() {
  static Context instance(test_device());
  return instance;
}

// Copies of host buffers on the device, and back.
class DeviceCopies {
 public:
  explicit DeviceCopies(int ordinal = test_device().ordinal) : ordinal_(ordinal) {}
  DeviceCopies(const DeviceCopies&) = delete;
  ~DeviceCopies() {
    for (const Copy& copy : copies_) driver().release(ordinal_, copy.device);
  }
  char* upload(void* host, std::size_t bytes) {
    void* const device = driver().allocate(ordinal_, bytes);
    driver().copy_to_device(ordinal_, device, host, bytes);
    copies_.push_back({host, device, bytes});
    return static_cast<char*>(device);
  }
  template <class T>
  T* upload(std::vector<T>& host) {
    return host.empty() ? nullptr
                        : reinterpret_cast<T*>(upload(host.data(), host.size() * sizeof(T)));
  }
  void* upload(OwnedTensor& tensor) {
    return upload(tensor.memory().data(), tensor.memory().size()) + tensor.offset();
  }
  void download_all() {
    driver().synchronize(ordinal_);
    for (const Copy& copy : copies_) {
      driver().copy_from_device(ordinal_, copy.host, copy.device, copy.bytes);
    }
  }

 private:
  struct Copy {
    void* host;
    void* device;
    std::size_t bytes;
  };
  int ordinal_;
  std::vector<Copy> copies_;
};

inline TensorPointers upload(DeviceCopies& copies, AttentionData& data) {
  TensorPointers device;
  device.q = copies.upload(data.q);
  device.k = copies.upload(data.k);
  device.v = copies.upload(data.v);
  device.out = copies.upload(data.out);
  device.lse = copies.upload(data.lse);
  device.bias = data.bias_16.empty() ? static_cast<const void*>(copies.upload(data.bias_f32))
                                     : copies.upload(data.bias_16);
  device.mask = copies.upload(data.mask);
  device.alibi = copies.upload(data.slopes);
  return device;
}

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_device().platform == Platform::cpu) GTEST_SKIP() << "no GPU on this machine";
  }

  static void expect_right(const AttentionCase& c, const std::string& family = {}) {
    testing::expect_right(c, target_names().front(), family);
  }
};

}  // namespace hipflash::testing
