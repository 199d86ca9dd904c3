// The JSON form of Problems and files of them.
#include "hipflash/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "api/operation_kernels.h"
#include "api/problem_fields.h"
#include "api/problem_hash.h"
#include "api/problem_json.h"
#include "hipflash/error.h"
#include "plan/dense_problem.h"

namespace hipflash {
namespace {

using ::testing::HasSubstr;

Problem sample() {
  Problem p = plan::dense_problem({DType::bf16, 2, 8, 2, 3, 300, 80, true});
  p.value_head_dim = 96;
  p.set_dense_bshd();
  return p;
}

// Another value of a field's type.
void change(std::int64_t& x) {
  x += 7;
}
void change(bool& x) {
  x = !x;
}
void change(float& x) {
  x += 0.3f;
}
void change(DType& x) {
  x = x == DType::f16 ? DType::bf16 : DType::f16;
}
void change(MaskAlignment& x) {
  x = MaskAlignment::top_left;
}
void change(Strides& x) {
  x.head += 3;
}
void change(ScoreStrides& x) {
  x.query += 5;
}
void change(Window& x) {
  x.left = 17;
}

// Every field by itself: it tells problems apart and comes back from JSON.
TEST(ProblemJson, EveryFieldCountsAndSurvives) {
  int fields = 0;
  const Problem whole = sample();
  for_each_field([&](const char*, const auto&) { ++fields; }, whole);
  EXPECT_GE(fields, 30);
  for (int chosen = 0; chosen < fields; ++chosen) {
    Problem other = sample();
    int at = 0;
    std::string name;
    for_each_field(
        [&](const char* field_name, auto& field) {
          if (at++ != chosen) return;
          name = field_name;
          change(field);
        },
        other);
    EXPECT_NE(other, sample()) << name;
    EXPECT_NE(ProblemHash()(other), ProblemHash()(sample())) << name;
    const std::string text = api::problem_to_json(other).dump();
    EXPECT_EQ(api::problem_from_json(nlohmann::json::parse(text)), other) << name << "\n" << text;
  }
}

TEST(ProblemJson, FloatsComeBackBitForBit) {
  Problem p = sample();
  for (const float scale : {0.08838834764f, 1e-38f, -3.4e38f, 0.1f, 0.0f}) {
    p.scale = scale;
    const std::string text = api::problem_to_json(p).dump();
    EXPECT_EQ(api::problem_from_json(nlohmann::json::parse(text)).scale, scale) << text;
  }
}

TEST(ProblemJson, WhatIsLeftOutIsADenseCall) {
  const Problem p = api::problem_from_json(nlohmann::json::parse(
      R"({"dtype":"f16","heads_q":4,"seq_q":128,"head_dim":64,"bias":true})"));
  Problem want = plan::dense_problem({DType::f16, 1, 4, 4, 128, 128, 64, false});
  want.lse = {};
  want.features.bias = true;
  want.bias = {0, 128 * 128, 128, 1};
  EXPECT_EQ(p, want);
}

// A merge has one head dimension.
TEST(ProblemJson, AnOperationWithoutValueHeadDim) {
  WorkloadItem item;
  item.operation.name = "merge_partials";
  item.operation.dtype = DType::f16;
  item.operation.head_dim = 128;
  EXPECT_EQ(api::operation_spec(item.operation, "gfx942").family, "gpu/merge_partials.hip");
  EXPECT_NO_THROW((void)workload_item_from_json(to_json_line(item)));
}

std::string refusal(const std::string& text) {
  try {
    (void)workload_item_from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << text;
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(ProblemJson, RefusalsNameTheField) {
  EXPECT_THAT(refusal(R"({"problem":{"dtype":"f8"}})"), HasSubstr("\"dtype\" = \"f8\""));
  EXPECT_THAT(refusal(R"({"problem":{"seq_q":1.5}})"), HasSubstr("\"seq_q\" = 1.5"));
  EXPECT_THAT(refusal(R"({"problem":{"seq_q":18446744073709551615}})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"({"problem":{"q":[1,2]}})"), HasSubstr("[batch, seq, head]"));
  EXPECT_THAT(refusal(R"({"problem":{"causal":1}})"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(R"({"problem":{"heads":1}})"), HasSubstr("\"heads\""));
  EXPECT_THAT(refusal(R"({"problem":[]})"), HasSubstr("object"));
  EXPECT_THAT(refusal(R"({"arch":"cpu-avx2"})"), HasSubstr("problem"));
  EXPECT_THAT(refusal(R"({"problem":{},"compute_units":-1})"), HasSubstr("compute_units"));
  EXPECT_THAT(refusal("not json"), HasSubstr("JSON object"));
}

class WorkloadFile : public ::testing::Test {
 protected:
  WorkloadFile() {
    std::string name = ::testing::TempDir() + "/hipflash workload XXXXXX";
    ::close(::mkstemp(name.data()));
    path_ = name;
  }
  ~WorkloadFile() override { ::unlink(path_.c_str()); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string path_;
};

TEST_F(WorkloadFile, EachItemOnceAndATornLastLineIsPassedOver) {
  const WorkloadItem one{"cpu-avx2", 4, sample()};
  WorkloadItem two = one;
  two.problem.seq_k = 9;
  const std::string a = to_json_line(one), b = to_json_line(two);
  write(a + "\n\n" + b + "\n" + a + "\n" + b.substr(0, b.size() / 2));
  EXPECT_EQ(read_workload(path_), (std::vector<WorkloadItem>{one, two}));
  write(a + "\n" + b);  // whole, but for its end
  EXPECT_EQ(read_workload(path_), (std::vector<WorkloadItem>{one, two}));
}

TEST_F(WorkloadFile, ADamagedLineIsNamed) {
  write(to_json_line({"cpu-avx2", 4, sample()}) + "\n{\"problem\":\n");
  try {
    (void)read_workload(path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 2"));
    EXPECT_THAT(error.what(), HasSubstr(path_));
  }
  EXPECT_THROW((void)read_workload("/no/such/file"), Error);
  EXPECT_THROW((void)read_workload("/"), Error);
  write("");
  EXPECT_TRUE(read_workload(path_).empty());
}

}  // namespace
}  // namespace hipflash
