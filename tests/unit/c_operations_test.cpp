// append_kv and merge_partials through the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "c_tensors.h"
#include "hipflash/c.h"

namespace {

using ::testing::HasSubstr;

class COperations : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(hipflash_context_create("cpu", nullptr, &context_), HIPFLASH_OK)
        << hipflash_last_error();
  }
  void TearDown() override { hipflash_context_destroy(context_); }
  hipflash_context* context_ = nullptr;
};

TEST_F(COperations, AppendsARotatedRow) {
  std::vector<float> k = {1, 2, 3, 4}, v = {5, 6, 7, 8}, k_cache(12), v_cache(12), q = k;
  std::vector<float> cos = {1, 1, 0, 0, 1, 1}, sin = {0, 0, 1, 1, 0, 0};  // position 1: 90 degrees
  const int32_t length = 1;
  int32_t next = 0;
  const hipflash_tensor kn = dense(k, 1, 1, 1, 4), vn = dense(v, 1, 1, 1, 4),
                        kc = dense(k_cache, 1, 3, 1, 4), vc = dense(v_cache, 1, 3, 1, 4);
  hipflash_append_options options = HIPFLASH_APPEND_OPTIONS_INIT;
  options.kv_lengths = &length;
  options.rotary_cos = cos.data();
  options.rotary_sin = sin.data();
  options.rotary_positions = 3;
  options.q = options.q_out = dense(q, 1, 1, 1, 4);
  options.new_lengths = &next;
  ASSERT_EQ(hipflash_append_kv(context_, &kn, &vn, &kc, &vc, &options, nullptr), HIPFLASH_OK)
      << hipflash_last_error();
  EXPECT_EQ(k_cache, (std::vector<float>{0, 0, 0, 0, -3, -4, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(v_cache, (std::vector<float>{0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0}));
  EXPECT_EQ(q, (std::vector<float>{-3, -4, 1, 2}));
  EXPECT_EQ(next, 2);
  EXPECT_EQ(hipflash_context_take_fault(context_), HIPFLASH_OK);

  options.rotary_dim = 3;
  EXPECT_EQ(hipflash_append_kv(context_, &kn, &vn, &kc, &vc, &options, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("options.rotary.dim = 3"));
  options.rotary_dim = 4;
  options.new_lengths = const_cast<int32_t*>(&length);
  EXPECT_EQ(hipflash_append_kv(context_, &kn, &vn, &kc, &vc, &options, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("options.new_lengths"));
}

TEST_F(COperations, MergesTwoParts) {
  std::vector<float> a = {2, 4}, b = {4, 8}, out(2);
  const float lse[] = {0.0f, std::log(3.0f)};
  float merged = 0;
  hipflash_partial parts[] = {HIPFLASH_PARTIAL_INIT, HIPFLASH_PARTIAL_INIT};
  parts[0].out = dense(a, 1, 1, 1, 2);
  parts[0].lse = &lse[0];
  parts[1].out = dense(b, 1, 1, 1, 2);
  parts[1].lse = &lse[1];
  const hipflash_tensor result = dense(out, 1, 1, 1, 2);
  ASSERT_EQ(hipflash_merge_partials(context_, parts, 2, &result, &merged, nullptr), HIPFLASH_OK)
      << hipflash_last_error();
  EXPECT_NEAR(out[0], 3.5f, 1e-6);
  EXPECT_NEAR(out[1], 7.0f, 1e-6);
  EXPECT_NEAR(merged, std::log(4.0f), 1e-6);
  EXPECT_EQ(hipflash_merge_partials(context_, parts, 0, &result, &merged, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_EQ(hipflash_merge_partials(context_, parts, 17, &result, &merged, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
}

}  // namespace
