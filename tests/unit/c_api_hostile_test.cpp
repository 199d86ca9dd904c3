// The C API with arguments that no program should pass: each is a status and a sentence, and no
// crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "hipflash/c.h"

namespace {

using ::testing::HasSubstr;

class CApiHostile : public ::testing::Test {
 protected:
  CApiHostile() {
    tensor_.data = data_.data();
    tensor_.batch = tensor_.heads = 1;
    tensor_.seq = 8;
    tensor_.dim = 4;
    tensor_.stride_batch = 32;
    tensor_.stride_seq = tensor_.stride_head = 4;
    result_ = tensor_;
    result_.data = out_.data();
  }
  void SetUp() override {
    ASSERT_EQ(hipflash_context_create("cpu", nullptr, &context_), HIPFLASH_OK);
  }
  void TearDown() override { hipflash_context_destroy(context_); }

  hipflash_status forward(const hipflash_tensor* q, const hipflash_options* options) {
    return hipflash_attention_forward(context_, q, &tensor_, &tensor_, &result_, options, nullptr);
  }
  // The call with these options is wrong, and its sentence says `words`.
  void expect_refused(const hipflash_options& options, const char* words) {
    EXPECT_EQ(forward(&tensor_, &options), HIPFLASH_INVALID_ARGUMENT) << words;
    EXPECT_THAT(hipflash_last_error(), HasSubstr(words));
  }

  std::vector<float> data_ = std::vector<float>(32, 1.0f), out_ = data_;
  hipflash_tensor tensor_ = HIPFLASH_TENSOR_INIT, result_ = HIPFLASH_TENSOR_INIT;
  hipflash_context* context_ = nullptr;
};

TEST_F(CApiHostile, NullPointers) {
  EXPECT_EQ(hipflash_context_create("cpu", nullptr, nullptr), HIPFLASH_INVALID_ARGUMENT);
  EXPECT_EQ(hipflash_context_seal(nullptr), HIPFLASH_INVALID_ARGUMENT);
  for (int null = 0; null < 4; ++null) {
    const hipflash_tensor* t[4] = {&tensor_, &tensor_, &tensor_, &result_};
    t[null] = nullptr;
    EXPECT_EQ(hipflash_attention_forward(context_, t[0], t[1], t[2], t[3], nullptr, nullptr),
              HIPFLASH_INVALID_ARGUMENT);
    hipflash_plan* plan = nullptr;
    EXPECT_EQ(hipflash_plan_create(context_, t[0], t[1], t[2], t[3], nullptr, &plan),
              HIPFLASH_INVALID_ARGUMENT);
    EXPECT_EQ(plan, nullptr);
  }
  const auto create = [&](hipflash_context* context, hipflash_plan** plan) {
    return hipflash_plan_create(context, &tensor_, &tensor_, &tensor_, &result_, nullptr, plan);
  };
  EXPECT_EQ(create(context_, nullptr), HIPFLASH_INVALID_ARGUMENT);
  hipflash_plan* plan = nullptr;
  EXPECT_EQ(create(nullptr, &plan), HIPFLASH_INVALID_ARGUMENT);
  ASSERT_EQ(create(context_, &plan), HIPFLASH_OK) << hipflash_last_error();
  hipflash_pointers pointers = HIPFLASH_POINTERS_INIT;
  EXPECT_EQ(hipflash_plan_run(plan, nullptr, nullptr), HIPFLASH_INVALID_ARGUMENT);
  EXPECT_EQ(hipflash_plan_run(nullptr, &pointers, nullptr), HIPFLASH_INVALID_ARGUMENT);
  EXPECT_EQ(hipflash_plan_run(plan, &pointers, nullptr), HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("q"));
  EXPECT_STREQ(hipflash_plan_explain(nullptr), "");
  hipflash_plan_destroy(plan);
  hipflash_plan_destroy(nullptr);
  hipflash_context_destroy(nullptr);

  hipflash_tensor empty = tensor_;
  empty.data = nullptr;
  EXPECT_EQ(forward(&empty, nullptr), HIPFLASH_INVALID_ARGUMENT);
  EXPECT_THAT(hipflash_last_error(), HasSubstr("q = null"));
}

TEST_F(CApiHostile, SizesOfStructs) {
  for (const std::uint32_t size : {0u, 1u, 4u, 7u, 63u, 65u, 5000u, 0xffffffffu}) {
    hipflash_tensor q = tensor_;
    q.struct_size = size;
    EXPECT_EQ(forward(&q, nullptr), HIPFLASH_INVALID_ARGUMENT) << size;
    EXPECT_THAT(hipflash_last_error(), HasSubstr("q.struct_size"));
    hipflash_options options = HIPFLASH_OPTIONS_INIT;
    options.struct_size = size;
    expect_refused(options, "options.struct_size");
    hipflash_context_options settings = HIPFLASH_CONTEXT_OPTIONS_INIT;
    settings.struct_size = size;
    hipflash_context* other = nullptr;
    EXPECT_EQ(hipflash_context_create("cpu", &settings, &other), HIPFLASH_INVALID_ARGUMENT) << size;
    EXPECT_EQ(other, nullptr);
  }
  hipflash_plan* plan = nullptr;
  ASSERT_EQ(hipflash_plan_create(context_, &tensor_, &tensor_, &tensor_, &result_, nullptr, &plan),
            HIPFLASH_OK);
  hipflash_pointers pointers = HIPFLASH_POINTERS_INIT;
  pointers.q = pointers.k = pointers.v = data_.data();
  pointers.out = out_.data();
  pointers.struct_size = 8;  // ends before the pointers that every call needs
  EXPECT_EQ(hipflash_plan_run(plan, &pointers, nullptr), HIPFLASH_INVALID_ARGUMENT);
  pointers.struct_size = offsetof(hipflash_pointers, lse);
  EXPECT_EQ(hipflash_plan_run(plan, &pointers, nullptr), HIPFLASH_OK) << hipflash_last_error();
  hipflash_plan_destroy(plan);
}

TEST_F(CApiHostile, NumbersThatAreNoEnumerators) {
  for (const std::int32_t number : {-1, 3, 1 << 30}) {
    hipflash_tensor q = tensor_;
    q.dtype = number;
    EXPECT_EQ(forward(&q, nullptr), HIPFLASH_INVALID_ARGUMENT);
    EXPECT_THAT(hipflash_last_error(), HasSubstr("dtype"));
    hipflash_options options = HIPFLASH_OPTIONS_INIT;
    options.alignment = number;
    expect_refused(options, "alignment");
    options = HIPFLASH_OPTIONS_INIT;
    options.bias = data_.data();
    options.bias_dtype = number;
    expect_refused(options, "bias");
    EXPECT_NE(hipflash_status_string(static_cast<hipflash_status>(9)), nullptr);
  }
  hipflash_options options = HIPFLASH_OPTIONS_INIT;
  options.reserved = 1;
  expect_refused(options, "options.reserved = 1");
  options = HIPFLASH_OPTIONS_INIT;
  options.window_left = -2;
  expect_refused(options, "window");
  options = HIPFLASH_OPTIONS_INIT;
  options.softcap = -1.0f;
  expect_refused(options, "softcap");
}

TEST_F(CApiHostile, SettingsOfAContext) {
  const auto expect_refused = [](const hipflash_context_options& settings, const char* words) {
    hipflash_context* context = nullptr;
    EXPECT_EQ(hipflash_context_create("cpu", &settings, &context), HIPFLASH_INVALID_ARGUMENT);
    EXPECT_THAT(hipflash_last_error(), HasSubstr(words));
    EXPECT_EQ(context, nullptr);
  };
  hipflash_context_options settings = HIPFLASH_CONTEXT_OPTIONS_INIT;
  settings.threads = -1;
  expect_refused(settings, "threads = -1");
  settings = HIPFLASH_CONTEXT_OPTIONS_INIT;
  settings.cpu_isa = "abacus";
  expect_refused(settings, "abacus");
  settings = HIPFLASH_CONTEXT_OPTIONS_INIT;
  settings.reserved = 7;
  expect_refused(settings, "reserved = 7");
  hipflash_context* context = nullptr;
  for (const char* device : {"", "cpu:1", "cpu:-1", "cpu:99999999999999999999", "CPU", "\xff"}) {
    EXPECT_NE(hipflash_context_create(device, nullptr, &context), HIPFLASH_OK) << device;
  }
}

}  // namespace
