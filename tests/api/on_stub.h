// What the tests of the hip platform on its stand-in share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "api/stub_hip/stub_hip.h"
#include "hipflash/attention.h"
#include "hipflash/error.h"
#include "hipflash/kv_cache.h"
#include "hipflash/merge.h"
#include "plan/dense_problem.h"

namespace hipflash::testing {

inline Problem stub_problem(std::int64_t seq, std::int64_t head_dim = 64) {
  return plan::dense_problem({DType::f16, 1, 2, 2, seq, seq, head_dim, false});
}

// A device's memory as a test holds it.
class StubMemory {
 public:
  explicit StubMemory(std::size_t bytes, int device = 0)
      : data_(stub_hip::allocate(device, bytes)) {}
  StubMemory(const StubMemory&) = delete;
  ~StubMemory() { stub_hip::release(data_); }
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
};

class OnStub : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HIPFLASH_COMPILE", "inline", 1);
    ::setenv("HIPFLASH_TUNING", "off", 1);
    stub_hip::set_kernel({});
    ctx = make_context();
  }
  void TearDown() override {
    ctx.reset();
    stub_hip::set_kernel({});
  }

  static std::unique_ptr<Context> make_context(int device = 0) {
    ContextOptions options;
    options.use_disk_cache = false;
    return std::make_unique<Context>(DeviceId{Platform::hip, device}, options);
  }

  // The error of a call that must not reach the device.
  template <class Call>
  static std::string refusal(Call&& call) {
    const std::size_t before = stub_hip::launches();
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
      EXPECT_EQ(stub_hip::launches(), before);
      return error.what();
    }
    return "(no error)";
  }

  std::unique_ptr<Context> ctx;
};

}  // namespace hipflash::testing
