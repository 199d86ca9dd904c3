// The C API from C++: statuses, versioned structs, and the same numbers as the C++ API.
#include "hipflash/c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "c_tensors.h"
#include "hipflash/attention.h"

namespace {

using ::testing::HasSubstr;

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (auto* x : {&q_, &k_, &v_}) {
      for (float& value : *x) value = normal(random);
    }
    ASSERT_EQ(hipflash_context_create("cpu", nullptr, &context_), HIPFLASH_OK)
        << hipflash_last_error();
  }
  void TearDown() override { hipflash_context_destroy(context_); }

  static constexpr int64_t kSeq = 20, kHeads = 2, kDim = 32;
  std::vector<float> q_ = std::vector<float>(kSeq * kHeads * kDim), k_ = q_, v_ = q_, out_ = q_;
  hipflash_tensor q = dense(q_, 1, kSeq, kHeads, kDim), k = dense(k_, 1, kSeq, kHeads, kDim),
                  v = dense(v_, 1, kSeq, kHeads, kDim), out = dense(out_, 1, kSeq, kHeads, kDim);
  hipflash_context* context_ = nullptr;
};

TEST_F(CApi, GivesTheBitsOfTheCppApi) {
  hipflash_options options = HIPFLASH_OPTIONS_INIT;
  options.causal = 1;
  std::vector<float> lse(kSeq * kHeads);
  options.lse = lse.data();
  ASSERT_EQ(hipflash_attention_forward(context_, &q, &k, &v, &out, &options, nullptr), HIPFLASH_OK)
      << hipflash_last_error();

  using hipflash::Tensor;
  std::vector<float> other(out_.size()), other_lse(lse.size());
  hipflash::Context ctx(hipflash::DeviceId{});
  hipflash::AttentionOptions cpp;
  cpp.causal = true;
  cpp.lse.data = other_lse.data();
  const auto tensor = [](std::vector<float>& x) {
    return Tensor::bshd(x.data(), hipflash::DType::f32, 1, kSeq, kHeads, kDim);
  };
  attention_forward(ctx, tensor(q_), tensor(k_), tensor(v_), tensor(other), cpp);
  EXPECT_EQ(out_, other);
  EXPECT_EQ(lse, other_lse);
}

TEST_F(CApi, PlanRunsAndOutlivesItsContext) {
  hipflash_plan* plan = nullptr;
  ASSERT_EQ(hipflash_plan_create(context_, &q, &k, &v, &out, nullptr, &plan), HIPFLASH_OK)
      << hipflash_last_error();
  EXPECT_THAT(hipflash_plan_explain(plan), HasSubstr("cpu/attention_forward"));
  hipflash_context_destroy(context_);
  context_ = nullptr;
  hipflash_pointers pointers = HIPFLASH_POINTERS_INIT;
  pointers.q = q_.data();
  pointers.k = k_.data();
  pointers.v = v_.data();
  pointers.out = out_.data();
  const std::vector<float> before = out_;
  EXPECT_EQ(hipflash_plan_run(plan, &pointers, nullptr), HIPFLASH_OK) << hipflash_last_error();
  EXPECT_NE(out_, before);
  hipflash_plan_destroy(plan);
}

TEST_F(CApi, SaysWhatIsWrong) {
  EXPECT_EQ(hipflash_attention_forward(nullptr, &q, &k, &v, &out, nullptr, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("context = NULL"));
  EXPECT_EQ(hipflash_attention_forward(context_, &q, nullptr, &v, &out, nullptr, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("k = NULL"));
  hipflash_tensor bad = k;
  bad.dim = 16;
  EXPECT_EQ(hipflash_attention_forward(context_, &q, &bad, &v, &out, nullptr, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("k.dim = 16"));
  const std::int32_t lengths[] = {1 << 20, 0, 0};
  hipflash_options options = HIPFLASH_OPTIONS_INIT;
  options.kv_lengths = lengths;
  EXPECT_EQ(hipflash_attention_forward(context_, &q, &k, &v, &out, &options, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("cache.lengths[0] = 1048576"));
  hipflash_context* other = nullptr;
  EXPECT_EQ(hipflash_context_create("gpu", nullptr, &other), HIPFLASH_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

TEST_F(CApi, ReadsStructsOfOtherVersions) {
  // A struct of an older header ends early: the rest are defaults.
  hipflash_options options = HIPFLASH_OPTIONS_INIT;
  options.struct_size = offsetof(hipflash_options, alibi_slopes);
  options.alibi_slopes = reinterpret_cast<const float*>(1);  // beyond the size: not read
  EXPECT_EQ(hipflash_attention_forward(context_, &q, &k, &v, &out, &options, nullptr), HIPFLASH_OK)
      << hipflash_last_error();

  // One of a newer header is longer: fine as long as what is unknown here is zero.
  struct {
    hipflash_options known;
    uint64_t unknown;
  } newer = {HIPFLASH_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  EXPECT_EQ(hipflash_attention_forward(context_, &q, &k, &v, &out, &newer.known, nullptr),
            HIPFLASH_OK);
  newer.unknown = 1;
  EXPECT_EQ(hipflash_attention_forward(context_, &q, &k, &v, &out, &newer.known, nullptr),
            HIPFLASH_NOT_SUPPORTED);

  options.struct_size = 0;
  EXPECT_EQ(hipflash_attention_forward(context_, &q, &k, &v, &out, &options, nullptr),
            HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("options.struct_size = 0"));
}

TEST_F(CApi, PacksAreCheckedWhenTheContextIsMade) {
  hipflash_context_options options = HIPFLASH_CONTEXT_OPTIONS_INIT;
  hipflash_context* context = nullptr;
  const char no_pack[] = "no pack at all";
  options.pack = no_pack;
  options.pack_bytes = sizeof no_pack;
  EXPECT_EQ(hipflash_context_create("cpu", &options, &context), HIPFLASH_CACHE_UNUSABLE);
  EXPECT_NE(std::string(hipflash_last_error()).find("pack"), std::string::npos);
  options = HIPFLASH_CONTEXT_OPTIONS_INIT;
  options.while_compiling = 2;
  EXPECT_EQ(hipflash_context_create("cpu", &options, &context), HIPFLASH_INVALID_ARGUMENT);
  options.while_compiling = 1;
  ASSERT_EQ(hipflash_context_create("cpu", &options, &context), HIPFLASH_OK);
  hipflash_context_destroy(context);
}

}  // namespace
