// Inputs that attention libraries have got wrong, each with what must hold, on every platform. The
// suite SmallNumbers is small enough for an emulated device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "numerics/attention_case.h"

namespace hipflash::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Numbers : public ::testing::TestWithParam<std::string> {
 protected:
  Target& here() { return target(GetParam()); }

  // Runs a call of other tensors than the case's: `more` is the memory of those.
  void run(AttentionData& data, const Tensor& q, const Tensor& k, const Tensor& v,
           const Tensor& out, const std::vector<Block>& more = {}) {
    data.poison();
    std::vector<Block> blocks = data.blocks();
    blocks.insert(blocks.end(), more.begin(), more.end());
    here().run(here().context().plan(make_problem(q, k, v, out, data.options)),
               make_pointers(q, k, v, out, data.options), blocks);
  }

  void additive_mask_that_keeps_the_last_ten_keys(std::int64_t queries);
  void scores_that_rise(std::int64_t seq_q, std::int64_t seq_k, float step);
  void nan_in_one_query(std::int64_t seq_q, std::int64_t seq_k, float step);
  void causal_equals_its_window(std::int64_t seq);
};
using SmallNumbers = Numbers;
using FullNumbers = Numbers;

Block block_of(OwnedTensor& tensor, bool written = false) {
  return {tensor.memory().data(), tensor.memory().size(), written};
}

float out_at(const AttentionData& data, std::int64_t s, std::int64_t h = 0, std::int64_t d = 0) {
  return data.out.get(0, s, h, d);
}

TEST_P(SmallNumbers, NoKeys) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.dtype = dtype;
      c.seq_k = 0;
      c.causal = causal;
      AttentionData data(c);
      data.run(here());
      for (std::int64_t s = 0; s < c.seq_q; ++s) EXPECT_EQ(out_at(data, s), 0.0f);
      for (std::size_t i = 0; i + 1 < data.lse.size(); ++i) EXPECT_EQ(data.lse[i], -kInfinity);
    }
  }
}

TEST_P(SmallNumbers, RowsThatSeeNothing) {
  AttentionCase c;
  c.seq_q = 76;
  c.seq_k = 1;  // bottom-right: only the last query sees the key
  c.dim = 32;
  c.causal = true;
  c.dtype = DType::f16;
  AttentionData data(c);
  data.run(here());
  for (std::int64_t s = 0; s < 75; ++s) {
    EXPECT_EQ(out_at(data, s), 0.0f) << s;
    EXPECT_EQ(data.lse[static_cast<std::size_t>(s)], -kInfinity) << s;
  }
  EXPECT_EQ(out_at(data, 75), data.v.get(0, 0, 0, 0));
}

TEST_P(SmallNumbers, AllFalseMaskRows) {
  AttentionCase c;
  c.seq_q = c.seq_k = 8;
  c.mask = Cells::full;
  AttentionData data(c);
  for (std::size_t i = 0; i < data.mask.size(); ++i) {
    const std::size_t row = i / 8 % 8;
    if (row == 2 || row == 7) data.mask[i] = 0;
  }
  data.run(here());
  for (const std::int64_t row : {2, 7}) {
    for (std::int64_t d = 0; d < c.dim; ++d) EXPECT_EQ(out_at(data, row, 1, d), 0.0f);
    EXPECT_EQ(data.lse[static_cast<std::size_t>(row)], -kInfinity);
  }
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(SmallNumbers, HugeNegativeLogits) {
  AttentionCase c;
  c.seq_q = 3;
  c.seq_k = 64;
  c.dim = 128;
  c.scale = 1.0f;
  AttentionData data(c);
  data.q.fill(0.0f);
  data.k.fill(0.0f);
  for (std::int64_t s = 0; s < c.seq_q; ++s)
    for (std::int64_t h = 0; h < 2; ++h) data.q.set(0, s, h, 0, 1.0f);
  for (std::int64_t s = 0; s < c.seq_k; ++s)
    for (std::int64_t h = 0; h < 2; ++h) {
      data.k.set(0, s, h, 0, s == 41 ? -60000.0f : -61000.0f - static_cast<float>(s));
    }
  data.run(here());
  for (std::int64_t d = 0; d < c.dim; ++d)
    EXPECT_FLOAT_EQ(out_at(data, 1, 0, d), data.v.get(0, 41, 0, d));
  EXPECT_FLOAT_EQ(data.lse[0], -60000.0f);
}

void Numbers::additive_mask_that_keeps_the_last_ten_keys(std::int64_t queries) {
  AttentionCase c;
  c.seq_q = queries;
  c.seq_k = 640;
  c.dim = 4;
  c.bias = Cells::one_row;
  AttentionData data(c);
  for (std::size_t j = 0; j < data.bias_f32.size(); ++j) {
    data.bias_f32[j] = j < 630 ? -kInfinity : 0.0f;
  }
  data.run(here());
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(SmallNumbers, AdditiveMaskThatKeepsTheLastTenKeys) {
  additive_mask_that_keeps_the_last_ten_keys(20);
}
TEST_P(FullNumbers, AdditiveMaskThatKeepsTheLastTenKeys) {
  additive_mask_that_keeps_the_last_ten_keys(640);
}

TEST_P(SmallNumbers, LeftPaddingByLargeNegativeBias) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.batch = 2;
  c.seq_q = c.seq_k = 7;
  c.bias = Cells::shared_heads;
  c.bias_in_dtype = true;
  AttentionData data(c);
  for (std::size_t i = 0; i < data.bias_16.size(); ++i) {
    const std::size_t batch = i / 49, key = i % 7;
    data.bias_16[i] = key < 3 * batch ? 0xfbff : 0;  // -65504, the lowest f16
  }
  data.run(here());
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(SmallNumbers, TransposedValueViewEqualsContiguous) {
  AttentionCase c;
  c.dtype = DType::bf16;
  c.heads_q = c.heads_kv = 16;
  c.seq_q = c.seq_k = 62;
  c.dim = 128;
  AttentionData data(c);
  data.run(here());
  const auto expected = data.out.bytes();
  OwnedTensor moved(c.dtype, 1, 62, 16, 128, Layout::bhsd);
  for (std::int64_t s = 0; s < 62; ++s)
    for (std::int64_t h = 0; h < 16; ++h)
      for (std::int64_t d = 0; d < 128; ++d) moved.set(0, s, h, d, data.v.get(0, s, h, d));
  run(data, data.q.view(), data.k.view(), moved.view(), data.out.view(), {block_of(moved)});
  EXPECT_EQ(data.out.bytes(), expected);
}

TEST_P(SmallNumbers, KeysRepeatedOverTheBatchByStrideZero) {
  AttentionCase c;
  c.batch = 3;
  c.seq_k = 97;  // one past a multiple of 32
  c.mask = Cells::shared_heads;
  AttentionData data(c);
  Tensor k = data.k.view(), v = data.v.view();
  k.stride.batch = v.stride.batch = 0;
  run(data, data.q.view(), k, v, data.out.view());
  const Problem problem = make_problem(data.q.view(), k, v, data.out.view(), data.options);
  const auto verdict =
      verify::check(problem, make_pointers(data.q.view(), k, v, data.out.view(), data.options));
  EXPECT_TRUE(verdict.ok()) << verdict.text();
}

void Numbers::causal_equals_its_window(std::int64_t seq) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.heads_q = c.heads_kv = 1;
  c.seq_q = c.seq_k = seq;
  c.dim = 128;
  c.causal = true;
  AttentionData data(c);
  data.run(here());
  const auto causal = data.out.bytes();
  const auto causal_lse = data.lse;
  data.options.causal = false;
  data.options.window = {c.seq_k - 1, 0};
  data.run(here());
  EXPECT_EQ(data.out.bytes(), causal);
  EXPECT_TRUE(std::equal(causal_lse.begin(), causal_lse.end() - 1, data.lse.begin()));
}

TEST_P(SmallNumbers, CausalEqualsItsWindow) {
  causal_equals_its_window(130);
}
TEST_P(FullNumbers, CausalEqualsItsWindow) {
  causal_equals_its_window(16384);
}

TEST_P(SmallNumbers, WindowCountsExactlyItsKeys) {
  constexpr std::int64_t kWidth = 16;
  AttentionCase c;
  c.seq_q = c.seq_k = 100;
  c.window = {kWidth - 1, 0};
  AttentionData data(c);
  data.q.fill(0.0f);
  data.run(here());
  for (std::int64_t s = 0; s < c.seq_q; ++s) {
    const auto keys = static_cast<float>(std::min(s + 1, kWidth));
    EXPECT_NEAR(data.lse[static_cast<std::size_t>(s)], std::log(keys), 1e-6f) << s;
  }
}

// The maximum of a row is far above what it was, again and again, and for some rows only.
void Numbers::scores_that_rise(std::int64_t seq_q, std::int64_t seq_k, float step) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.dtype = dtype;
      c.seq_q = seq_q;
      c.seq_k = seq_k;
      c.causal = causal;
      AttentionData data(c);
      for (std::int64_t s = 0; s < c.seq_k; ++s)
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t d = 0; d < c.dim; ++d) {
            const float factor = h == 0                  ? 1.0f + static_cast<float>(s) * step
                                 : s == c.seq_k * 7 / 11 ? 25.0f
                                                         : 1.0f;
            data.k.set(0, s, h, d, factor * data.k.get(0, s, h, d));
          }
      data.run(here());
      const verify::Verdict verdict = data.verdict();
      EXPECT_TRUE(verdict.ok()) << c << ": " << verdict.text();
    }
  }
}

TEST_P(SmallNumbers, ScoresThatRiseAlongTheKeys) {
  scores_that_rise(18, 300, 0.08f);
}
TEST_P(FullNumbers, ScoresThatRiseAlongTheKeys) {
  scores_that_rise(70, 1100, 0.02f);
}

void Numbers::nan_in_one_query(std::int64_t seq_q, std::int64_t seq_k, float step) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    AttentionCase c;
    c.dtype = dtype;
    c.seq_q = seq_q;
    c.seq_k = seq_k;
    AttentionData data(c);
    for (std::int64_t s = 0; s < c.seq_k; ++s)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t d = 0; d < c.dim; ++d)
          data.k.set(0, s, h, d, (1.0f + static_cast<float>(s) * step) * data.k.get(0, s, h, d));
    // The last rows of register blocks of many heights are among these.
    for (std::int64_t s = 5; s < c.seq_q; s += 6)
      for (std::int64_t h = 0; h < 2; ++h) data.q.set(0, s, h, 0, kNan);
    data.run(here());
    const verify::Verdict verdict = data.verdict();
    EXPECT_TRUE(verdict.ok()) << c << ": " << verdict.text();
  }
}

TEST_P(SmallNumbers, NanInOneQueryHidesNoRiseInOthers) {
  nan_in_one_query(18, 150, 0.8f);
}
TEST_P(FullNumbers, NanInOneQueryHidesNoRiseInOthers) {
  nan_in_one_query(70, 1100, 0.2f);
}

TEST_P(SmallNumbers, ScaleOfAnySign) {
  for (const float scale : {0.0f, -0.125f, 3.0f}) {
    AttentionCase c;
    c.scale = scale;
    c.causal = true;
    expect_right(c, GetParam());
  }
}

TEST_P(SmallNumbers, NanInAKeyThatNobodySees) {
  AttentionCase c;
  c.seq_q = 20;
  c.seq_k = 40;
  c.causal = true;
  c.alignment = MaskAlignment::top_left;  // keys 20 to 39 are seen by nobody
  AttentionData clean(c), dirty(c);
  for (std::int64_t s = 20; s < 40; ++s)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t d = 0; d < c.dim; ++d) {
        dirty.k.set(0, s, h, d, kNan);
        dirty.v.set(0, s, h, d, kNan);
      }
  clean.run(here());
  dirty.run(here());
  EXPECT_EQ(clean.out.bytes(), dirty.out.bytes());
}

TEST_P(SmallNumbers, NanInASeenKeyOrInAQueryReachesItsRows) {
  AttentionCase c;
  c.seq_q = c.seq_k = 33;
  c.causal = true;
  AttentionData data(c);
  data.k.set(0, 30, 0, 5, kNan);
  data.q.set(0, 4, 1, 7, kNan);
  data.run(here());
  for (std::int64_t s = 0; s < 33; ++s) {
    EXPECT_EQ(std::isnan(out_at(data, s, 0, 3)), s >= 30) << s;
    EXPECT_EQ(std::isnan(out_at(data, s, 1, 3)), s == 4) << s;
  }
}

TEST_P(SmallNumbers, GroupedHeadsOfThree) {
  AttentionCase c;
  c.dtype = DType::bf16;
  c.heads_q = 9;
  c.heads_kv = 3;
  c.seq_q = 1;
  for (const std::int64_t keys : {3, 5, 1}) {
    c.seq_k = keys;
    expect_right(c, GetParam());
  }
}

// Bit-equal where the same kernel and split serve both: always if asked for.
TEST_P(SmallNumbers, OneSequenceAloneAndInABatch) {
  for (const bool batch_invariant : {false, true}) {
    AttentionCase c;
    c.batch = 3;
    c.seq_q = c.seq_k = 60;
    c.causal = true;
    AttentionData data(c);
    data.options.batch_invariant = batch_invariant;
    data.run(here());
    const Explanation together = here().context().plan(data.problem()).explanation();
    std::vector<float> expected;
    for (std::int64_t s = 0; s < c.seq_q; ++s)
      for (std::int64_t h = 0; h < c.heads_q; ++h)
        for (std::int64_t d = 0; d < c.dim; ++d) expected.push_back(data.out.get(1, s, h, d));
    Tensor q = data.q.view(), k = data.k.view(), v = data.v.view();
    for (Tensor* t : {&q, &k, &v}) {
      t->batch = 1;
      t->data = static_cast<float*>(t->data) + t->stride.batch;  // the second sequence
    }
    OwnedTensor alone(c.dtype, 1, c.seq_q, c.heads_q, c.dim, Layout::bshd);
    const Explanation single =
        here().context().plan(make_problem(q, k, v, alone.view(), data.options)).explanation();
    const bool same = single.key == together.key && single.splits == together.splits;
    EXPECT_TRUE(same || !batch_invariant) << single.text() << together.text();
    if (!same) continue;
    alone.fill(kNan);
    run(data, q, k, v, alone.view(), {block_of(alone, true)});
    std::size_t at = 0;
    for (std::int64_t s = 0; s < c.seq_q; ++s)
      for (std::int64_t h = 0; h < c.heads_q; ++h)
        for (std::int64_t d = 0; d < c.dim; ++d) {
          ASSERT_EQ(alone.get(0, s, h, d), expected[at++]) << s << " " << h << " " << d;
        }
  }
}

TEST_P(FullNumbers, OffsetsBeyondTwoToThe31) {
  // The second sequence starts 2^31 + 64 elements after the first. Untouched pages cost no memory.
  const std::int64_t apart = (std::int64_t{1} << 31) + 64;
  constexpr std::int64_t kSeq = 40, kDim = 64;
  const std::size_t bytes = static_cast<std::size_t>(apart + kSeq * kDim) * sizeof(std::uint16_t);
  std::unique_ptr<std::uint16_t, void (*)(void*)> memory(
      static_cast<std::uint16_t*>(std::calloc(bytes, 1)), std::free);
  if (!memory) GTEST_SKIP() << "the machine does not give out " << bytes << " bytes";
  AttentionCase c;
  c.dtype = DType::f16;
  c.batch = 2;
  c.heads_q = c.heads_kv = 1;
  c.seq_q = c.seq_k = kSeq;
  c.dim = kDim;
  AttentionData data(c);
  Tensor k = data.k.view();
  k.data = memory.get();
  k.stride = {apart, kDim, kDim};
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t s = 0; s < kSeq; ++s)
      for (std::int64_t d = 0; d < kDim; ++d) {
        memory.get()[b * apart + s * kDim + d] =
            static_cast<const std::uint16_t*>(data.k.view().data)[data.k.index(b, s, 0, d)];
      }
  data.run(here());
  const auto expected = data.out.bytes();
  run(data, data.q.view(), k, data.v.view(), data.out.view(), {{memory.get(), bytes}});
  EXPECT_EQ(data.out.bytes(), expected);
}

TEST_P(SmallNumbers, LeadingDimensionsOfZero) {
  for (int which = 0; which < 3; ++which) {
    AttentionCase c;
    (which == 0 ? c.batch : which == 1 ? c.seq_q : c.heads_q) = 0;
    if (which == 2) c.heads_kv = 0;
    AttentionData data(c);
    data.run(here());  // nothing to compute, nothing to crash on
    EXPECT_TRUE(data.out.untouched_outside());
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmallNumbers);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullNumbers);
INSTANTIATE_TEST_SUITE_P(Target, SmallNumbers, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });
INSTANTIATE_TEST_SUITE_P(Target, FullNumbers, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace hipflash::testing
