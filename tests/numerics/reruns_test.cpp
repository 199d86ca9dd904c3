// The same call again and again gives the same bits, output and LSE: what a race between threads,
// waves or blocks would change. Each kernel family, element type and way of splitting keys has a
// call. The suite SmallReruns is small enough for an emulated device.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "numerics/ragged_case.h"

namespace hipflash::testing {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

class Reruns : public ::testing::TestWithParam<std::string> {
 protected:
  Target& here() { return target(GetParam()); }
  // More threads than the other tests have, on the CPU.
  Context& context() { return here().is_cpu() ? context_for(GetParam(), 4) : here().context(); }
  // The bf16 form of AVX-512 tells something new of bf16 only; the portable form is slow, and its
  // threads share work alike whatever the type.
  bool skipped(DType dtype) const {
    if (GetParam() == "portable") return dtype != DType::f32;
    return GetParam() == "avx512_bf16" && dtype != DType::bf16;
  }

  // The first run is also held against float64. Returns how many parts the keys were split into.
  template <class Case, class Data>
  int expect_equal(const Case& c, int reruns) {
    if (skipped(c.dtype)) return 0;
    SCOPED_TRACE(::testing::Message() << c);
    Data data(c);
    const Plan plan = context().plan(data.problem());
    SCOPED_TRACE(plan.explanation().text());
    const auto run = [&] {
      data.poison();
      here().run(plan, data.pointers(), data.blocks());
    };
    run();
    const verify::Verdict verdict = data.verdict();
    EXPECT_TRUE(verdict.ok()) << verdict.text();
    const std::vector<std::uint8_t> out = data.out.memory();
    const std::vector<float> lse = data.lse;
    for (int i = 0; i < reruns; ++i) {
      run();
      EXPECT_EQ(data.out.memory(), out) << "run " << i;
      // The element behind the end is NaN.
      EXPECT_TRUE(std::equal(lse.begin(), lse.end() - 1, data.lse.begin())) << "run " << i;
      if (HasFailure()) break;
    }
    return plan.explanation().splits;
  }
  int dense(const AttentionCase& c, int reruns) {
    return expect_equal<AttentionCase, AttentionData>(c, reruns);
  }
  int ragged(const RaggedCase& c, int reruns) {
    return expect_equal<RaggedCase, RaggedData>(c, reruns);
  }
};
using SmallReruns = Reruns;
using FullReruns = Reruns;

AttentionCase dense_case(DType dtype, std::int64_t seq_q, std::int64_t seq_k) {
  AttentionCase c;
  c.dtype = dtype;
  c.heads_kv = 1;
  c.seq_q = seq_q;
  c.seq_k = seq_k;
  c.causal = true;
  return c;
}

TEST_P(SmallReruns, ManyQueries) {
  for (const DType dtype : kDtypes) dense(dense_case(dtype, 70, 90), 3);
}

TEST_P(SmallReruns, SplitKeys) {
  for (const DType dtype : kDtypes) {
    const int splits = dense(dense_case(dtype, 1, here().is_cpu() ? 5003 : 700), 3);
    EXPECT_TRUE(skipped(dtype) || splits > 1) << to_string(dtype);
  }
}

TEST_P(SmallReruns, AHandfulOfKeys) {
  for (const DType dtype : kDtypes) dense(dense_case(dtype, 2, 3), 3);
}

TEST_P(SmallReruns, PagesAndSplitKeys) {
  for (const DType dtype : kDtypes) {
    RaggedCase c;
    c.dtype = dtype;
    c.queries = {1, 1};
    c.keys = {700, 90};
    c.form = KeyForm::paged;
    c.causal = true;
    ragged(c, 3);
  }
}

// Sizes that take each of the families, on a CPU each of the ways of its one family. GPUs have
// another kernel for long rows of 16-bit types.
TEST_P(FullReruns, FiftyOfEveryFamilyAndDtype) {
  for (const DType dtype : kDtypes) {
    for (const auto& [seq_q, seq_k] : {std::pair<int, int>{200, 300},  // tiles of queries
                                       {64, 64},                       // a board
                                       {16, 400},                      // few queries
                                       {4, 3}}) {                      // a handful of keys
      AttentionCase c = dense_case(dtype, seq_q, seq_k);
      dense(c, 50);
      if (here().is_cpu()) continue;
      c.dim = 128;
      dense(c, 50);
      c.dim = 59;  // rows without alignment
      dense(c, 50);
    }
  }
}

TEST_P(FullReruns, FiftyOfEverySplit) {
  for (const DType dtype : kDtypes) {
    for (const std::int64_t queries : {1, 3, 16}) {
      AttentionCase c = dense_case(dtype, queries, queries == 16 ? 20000 : 5003);
      const int splits = dense(c, 50);
      EXPECT_TRUE(skipped(dtype) || splits > 1) << c;
      if (here().is_cpu()) continue;
      c.dim = 128;
      dense(c, 50);
    }
  }
}

TEST_P(FullReruns, FiftyOfEveryForm) {
  for (const DType dtype : kDtypes) {
    for (const KeyForm form : {KeyForm::packed, KeyForm::cache, KeyForm::paged}) {
      RaggedCase c;
      c.dtype = dtype;
      c.heads_q = 4;
      c.causal = true;
      c.form = form;
      c.queries = {3, 1, 140};
      c.keys = {80, 130, 141};
      ragged(c, 50);
      c.queries = {1, 1};
      c.keys = {6000, 300};
      ragged(c, 50);
      c.batch_invariant = true;
      if (!here().is_cpu()) ragged(c, 50);
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmallReruns);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullReruns);
INSTANTIATE_TEST_SUITE_P(Target, SmallReruns, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });
INSTANTIATE_TEST_SUITE_P(Target, FullReruns, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace hipflash::testing
