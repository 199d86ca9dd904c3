// Lengths, offsets, slots and tables that cannot be right, as a kernel finds them: the rows of that
// sequence are NaN, the others are right, and Context::take_fault() tells, once. On the CPU the
// call throws instead, and nothing is written. All but the suite FullRaggedFaults is small enough
// for an emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hipflash/error.h"
#include "numerics/ragged_case.h"

namespace hipflash::testing {
namespace {

using ::testing::HasSubstr;

class RaggedFaults : public ::testing::TestWithParam<std::string> {
 protected:
  Target& here() { return target(GetParam()); }

  // As the CPU does it: an error with these words, and nothing written.
  void expect_refused(RaggedData& data, const Plan& plan, const std::string& words) {
    const std::vector<std::uint8_t> before = data.out.memory();
    try {
      here().run(plan, data.pointers(), data.blocks());
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
    EXPECT_EQ(data.out.memory(), before);
    EXPECT_EQ(here().context().take_fault(), "");
  }

  // Runs the case with `spoil` applied: the rows of `spoiled` sequences must be NaN, the others as
  // they are without it. `words` are in the fault's sentence, `cpu_words` in the CPU's error.
  void expect_fault(const RaggedCase& c, const std::vector<std::int64_t>& spoiled,
                    const std::function<void(RaggedData&)>& spoil, const std::string& words,
                    const std::string& cpu_words) {
    SCOPED_TRACE(::testing::Message() << c << ": " << cpu_words);
    RaggedData good(c), bad(c);
    good.run(here());
    EXPECT_EQ(here().context().take_fault(), "");
    const Plan plan = here().context().plan(bad.problem());
    spoil(bad);
    bad.poison();
    if (here().is_cpu()) {
      expect_refused(bad, plan, cpu_words);
      return;
    }
    here().run(plan, bad.pointers(), bad.blocks());
    EXPECT_THAT(here().context().take_fault(), HasSubstr(words));
    EXPECT_EQ(here().context().take_fault(), "") << "a fault is told once";
    const auto is_nan = [](float x) { return std::isnan(x); };
    for (std::int64_t b = 0; b < c.batch(); ++b) {
      const std::vector<float> out = bad.out_of(b), lse = bad.lse_of(b);
      if (std::find(spoiled.begin(), spoiled.end(), b) == spoiled.end()) {
        EXPECT_EQ(out, good.out_of(b)) << b;
        EXPECT_EQ(lse, good.lse_of(b)) << b;
        continue;
      }
      EXPECT_TRUE(std::all_of(out.begin(), out.end(), is_nan)) << b;
      EXPECT_TRUE(std::all_of(lse.begin(), lse.end(), is_nan)) << b;
    }
  }

  // Of packed keys of three sequences. The end of sequence 0 is the beginning of sequence 1.
  void expect_faults_of_offsets(const RaggedCase& c) {
    expect_fault(
        c, {0, 1}, [](RaggedData& data) { data.cu_k[1] = 1 << 20; }, "offsets",
        "varlen.cu_seqlens_k[");
    expect_fault(
        c, {0}, [](RaggedData& data) { data.cu_k[0] = -3; }, "offsets", "varlen.cu_seqlens_k[0]");
  }

  // Of packed queries of three sequences. Which rows are whose is anybody's guess then.
  void expect_faults_of_query_offsets(const RaggedCase& c) {
    const std::int64_t rows = c.queries[0] + c.queries[1] + c.queries[2];
    const std::vector<std::vector<std::int64_t>> wrong = {
        {0, rows - 1, 1, rows}, {0, rows, 1, rows}, {rows, 2, 2, 2}, {0, 3, 2, 1},
        {0, 1 << 20, 2, rows},  {0, 0, 0, 1 << 20}, {-1, 1, 2, 3},   {2, 1, 1, -5}};
    for (const std::vector<std::int64_t>& offsets : wrong) {
      SCOPED_TRACE(::testing::Message() << c << ": " << ::testing::PrintToString(offsets));
      RaggedData data(c);
      const Plan plan = here().context().plan(data.problem());
      data.poison();
      data.cu_q.assign(offsets.begin(), offsets.end());
      data.cu_q_64 = offsets;
      if (here().is_cpu()) {
        expect_refused(data, plan, "varlen.cu_seqlens_q[");
        continue;
      }
      EXPECT_EQ(here().context().take_fault(), "");
      here().run(plan, data.pointers(), data.blocks());
      EXPECT_THAT(here().context().take_fault(), HasSubstr("offsets"));
      EXPECT_EQ(here().context().take_fault(), "") << "a fault is told once";
    }
  }

  // Everything that may be wrong with a cache, dense and paged.
  void expect_faults_of_caches(RaggedCase c) {
    c.packed_q = false;
    c.batch_index = c.left_padding = true;
    c.unused = 0.0f;
    for (const KeyForm form : {KeyForm::cache, KeyForm::paged}) {
      c.form = form;
      for (const int length : {1 << 20, -1}) {
        expect_fault(
            c, {1}, [&](RaggedData& data) { data.lengths[1] = length; }, "a length",
            "cache.lengths[1] = " + std::to_string(length));
      }
      expect_fault(
          c, {1}, [](RaggedData& data) { data.padding[1] = data.lengths[1] + 1; }, "a length",
          "cache.left_padding[1]");
      for (const int slot : {3, -1, 1 << 30}) {
        expect_fault(
            c, {1}, [&](RaggedData& data) { data.slots[1] = slot; }, "a batch index",
            "cache.batch_index[1] = " + std::to_string(slot));
      }
    }
    for (const int page : {1 << 20, -1}) {
      expect_fault(
          c, {1},
          [&](RaggedData& data) {
            const std::int64_t row = data.slots[1] * data.options.paged.row_stride;
            data.table[static_cast<std::size_t>(row + 1)] = page;
          },
          "an entry of a block table", "= " + std::to_string(page));
    }
  }
};
using SmallRaggedFaults = RaggedFaults;
using FullRaggedFaults = RaggedFaults;

TEST_P(SmallRaggedFaults, OfCaches) {
  RaggedCase c;
  c.queries = {2, 2, 2};
  c.keys = {40, 29, 17};
  expect_faults_of_caches(c);
}

TEST_P(SmallRaggedFaults, OfOffsets) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    RaggedCase c;
    c.dtype = dtype;
    c.queries = {4, 4, 4};
    c.keys = {10, 10, 10};
    expect_faults_of_offsets(c);
    expect_faults_of_query_offsets(c);
  }
}

// The CPU refuses before it looks at what takes which kernel.
#define SKIP_ON_CPU() \
  if (here().is_cpu()) GTEST_SKIP() << "as in SmallRaggedFaults"

TEST_P(FullRaggedFaults, WhereKeysAreSplit) {
  SKIP_ON_CPU();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    RaggedCase c;
    c.dtype = dtype;
    c.heads_q = 4;
    c.queries = {1, 1, 1};
    c.keys = {2500, 1500, 170};
    expect_faults_of_caches(c);
  }
}

TEST_P(FullRaggedFaults, OfOffsetsOfManyQueries) {
  SKIP_ON_CPU();
  for (const DType dtype : {DType::f16, DType::f32}) {
    RaggedCase c;
    c.dtype = dtype;
    c.queries = {150, 70, 90};
    c.keys = {160, 100, 90};
    expect_faults_of_offsets(c);
    expect_faults_of_query_offsets(c);
    c.offsets_are_64bit = true;
    if (dtype == DType::f16) expect_faults_of_query_offsets(c);
    // Their difference is 512, if it is allowed to overflow.
    expect_fault(
        c, {0, 1, 2},
        [](RaggedData& data) {
          constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
          data.cu_k_64 = {kLargest - 255, -kLargest + 255, kLargest - 255, -kLargest + 255};
        },
        "offsets", "varlen.cu_seqlens_k[");
  }
}

TEST_P(FullRaggedFaults, OfManyQueries) {
  SKIP_ON_CPU();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    RaggedCase c;
    c.dtype = dtype;
    c.dim = 128;
    c.queries = {150, 150, 150};
    c.keys = {400, 290, 150};
    expect_faults_of_caches(c);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmallRaggedFaults);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullRaggedFaults);
INSTANTIATE_TEST_SUITE_P(Target, SmallRaggedFaults, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });
INSTANTIATE_TEST_SUITE_P(Target, FullRaggedFaults, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace hipflash::testing
