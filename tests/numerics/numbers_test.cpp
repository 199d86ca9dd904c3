// Inputs that attention libraries have got wrong, each with what must hold.
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
  Context& ctx() { return context_for(GetParam()); }
};

float out_at(const AttentionData& data, std::int64_t s, std::int64_t h = 0, std::int64_t d = 0) {
  return data.out.get(0, s, h, d);
}

TEST_P(Numbers, NoKeys) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.dtype = dtype;
      c.seq_k = 0;
      c.causal = causal;
      AttentionData data(c);
      data.run(ctx());
      for (std::int64_t s = 0; s < c.seq_q; ++s) EXPECT_EQ(out_at(data, s), 0.0f);
      for (std::size_t i = 0; i + 1 < data.lse.size(); ++i) EXPECT_EQ(data.lse[i], -kInfinity);
    }
  }
}

TEST_P(Numbers, RowsThatSeeNothing) {
  AttentionCase c;
  c.seq_q = 76;
  c.seq_k = 1;  // bottom-right: only the last query sees the key
  c.dim = 32;
  c.causal = true;
  c.dtype = DType::f16;
  AttentionData data(c);
  data.run(ctx());
  for (std::int64_t s = 0; s < 75; ++s) {
    EXPECT_EQ(out_at(data, s), 0.0f) << s;
    EXPECT_EQ(data.lse[static_cast<std::size_t>(s)], -kInfinity) << s;
  }
  EXPECT_EQ(out_at(data, 75), data.v.get(0, 0, 0, 0));
}

TEST_P(Numbers, AllFalseMaskRows) {
  AttentionCase c;
  c.seq_q = c.seq_k = 8;
  c.mask = Cells::full;
  AttentionData data(c);
  for (std::size_t i = 0; i < data.mask.size(); ++i) {
    const std::size_t row = i / 8 % 8;
    if (row == 2 || row == 7) data.mask[i] = 0;
  }
  data.run(ctx());
  for (const std::int64_t row : {2, 7}) {
    for (std::int64_t d = 0; d < c.dim; ++d) EXPECT_EQ(out_at(data, row, 1, d), 0.0f);
    EXPECT_EQ(data.lse[static_cast<std::size_t>(row)], -kInfinity);
  }
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(Numbers, HugeNegativeLogits) {
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
  data.run(ctx());
  for (std::int64_t d = 0; d < c.dim; ++d)
    EXPECT_FLOAT_EQ(out_at(data, 1, 0, d), data.v.get(0, 41, 0, d));
  EXPECT_FLOAT_EQ(data.lse[0], -60000.0f);
}

TEST_P(Numbers, AdditiveMaskThatKeepsTheLastTenKeys) {
  AttentionCase c;
  c.seq_q = c.seq_k = 640;
  c.dim = 4;
  c.bias = Cells::one_row;
  AttentionData data(c);
  for (std::size_t j = 0; j < data.bias_f32.size(); ++j) {
    data.bias_f32[j] = j < 630 ? -kInfinity : 0.0f;
  }
  data.run(ctx());
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(Numbers, LeftPaddingByLargeNegativeBias) {
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
  data.run(ctx());
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(Numbers, TransposedValueViewEqualsContiguous) {
  AttentionCase c;
  c.dtype = DType::bf16;
  c.heads_q = c.heads_kv = 16;
  c.seq_q = c.seq_k = 62;
  c.dim = 128;
  AttentionData data(c);
  data.run(ctx());
  const auto expected = data.out.bytes();
  OwnedTensor moved(c.dtype, 1, 62, 16, 128, Layout::bhsd);
  for (std::int64_t s = 0; s < 62; ++s)
    for (std::int64_t h = 0; h < 16; ++h)
      for (std::int64_t d = 0; d < 128; ++d) moved.set(0, s, h, d, data.v.get(0, s, h, d));
  data.out.fill(kNan);
  attention_forward(ctx(), data.q.view(), data.k.view(), moved.view(), data.out.view(),
                    data.options);
  EXPECT_EQ(data.out.bytes(), expected);
}

TEST_P(Numbers, KeysRepeatedOverTheBatchByStrideZero) {
  AttentionCase c;
  c.batch = 3;
  c.seq_k = 97;  // one past a multiple of 32
  c.mask = Cells::shared_heads;
  AttentionData data(c);
  Tensor k = data.k.view(), v = data.v.view();
  k.stride.batch = v.stride.batch = 0;
  data.out.fill(kNan);
  attention_forward(ctx(), data.q.view(), k, v, data.out.view(), data.options);
  const Problem problem = make_problem(data.q.view(), k, v, data.out.view(), data.options);
  const auto verdict =
      verify::check(problem, make_pointers(data.q.view(), k, v, data.out.view(), data.options));
  EXPECT_TRUE(verdict.ok()) << verdict.text();
}

TEST_P(Numbers, CausalEqualsItsWindow) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.heads_q = c.heads_kv = 1;
  c.seq_q = c.seq_k = 16384;
  c.dim = 128;
  c.causal = true;
  AttentionData data(c);
  data.run(ctx());
  const auto causal = data.out.bytes();
  const auto causal_lse = data.lse;
  data.options.causal = false;
  data.options.window = {c.seq_k - 1, 0};
  data.run(ctx());
  EXPECT_EQ(data.out.bytes(), causal);
  EXPECT_TRUE(std::equal(causal_lse.begin(), causal_lse.end() - 1, data.lse.begin()));
}

TEST_P(Numbers, WindowCountsExactlyItsKeys) {
  constexpr std::int64_t kWidth = 16;
  AttentionCase c;
  c.seq_q = c.seq_k = 100;
  c.window = {kWidth - 1, 0};
  AttentionData data(c);
  data.q.fill(0.0f);
  data.run(ctx());
  for (std::int64_t s = 0; s < c.seq_q; ++s) {
    const auto keys = static_cast<float>(std::min(s + 1, kWidth));
    EXPECT_NEAR(data.lse[static_cast<std::size_t>(s)], std::log(keys), 1e-6f) << s;
  }
}

// The maximum of a row is far above what it was, again and again, and for some rows only.
TEST_P(Numbers, ScoresThatRiseAlongTheKeys) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.dtype = dtype;
      c.seq_q = 70;
      c.seq_k = 1100;
      c.causal = causal;
      AttentionData data(c);
      for (std::int64_t s = 0; s < c.seq_k; ++s)
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t d = 0; d < c.dim; ++d) {
            const float factor = h == 0     ? 1.0f + static_cast<float>(s) * 0.02f
                                 : s == 700 ? 25.0f
                                            : 1.0f;
            data.k.set(0, s, h, d, factor * data.k.get(0, s, h, d));
          }
      data.run(ctx());
      const verify::Verdict verdict = data.verdict();
      EXPECT_TRUE(verdict.ok()) << verdict.text();
    }
  }
}

TEST_P(Numbers, NanInOneQueryHidesNoRiseInOthers) {
  AttentionCase c;
  c.seq_q = 70;
  c.seq_k = 1100;
  AttentionData data(c);
  for (std::int64_t s = 0; s < c.seq_k; ++s)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t d = 0; d < c.dim; ++d)
        data.k.set(0, s, h, d, (1.0f + static_cast<float>(s) * 0.2f) * data.k.get(0, s, h, d));
  // The last rows of register blocks of many heights are among these.
  for (std::int64_t s = 5; s < c.seq_q; s += 6)
    for (std::int64_t h = 0; h < 2; ++h) data.q.set(0, s, h, 0, kNan);
  data.run(ctx());
  const verify::Verdict verdict = data.verdict();
  EXPECT_TRUE(verdict.ok()) << verdict.text();
}

TEST_P(Numbers, ScaleOfAnySign) {
  for (const float scale : {0.0f, -0.125f, 3.0f}) {
    AttentionCase c;
    c.scale = scale;
    c.causal = true;
    expect_right(c, GetParam());
  }
}

TEST_P(Numbers, NanInAKeyThatNobodySees) {
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
  clean.run(ctx());
  dirty.run(ctx());
  EXPECT_EQ(clean.out.bytes(), dirty.out.bytes());
}

TEST_P(Numbers, NanInASeenKeyOrInAQueryReachesItsRows) {
  AttentionCase c;
  c.seq_q = c.seq_k = 33;
  c.causal = true;
  AttentionData data(c);
  data.k.set(0, 30, 0, 5, kNan);
  data.q.set(0, 4, 1, 7, kNan);
  data.run(ctx());
  for (std::int64_t s = 0; s < 33; ++s) {
    EXPECT_EQ(std::isnan(out_at(data, s, 0, 3)), s >= 30) << s;
    EXPECT_EQ(std::isnan(out_at(data, s, 1, 3)), s == 4) << s;
  }
}

TEST_P(Numbers, GroupedHeadsOfThree) {
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

TEST_P(Numbers, OneSequenceAloneAndInABatch) {
  AttentionCase c;
  c.batch = 3;
  c.seq_q = c.seq_k = 150;
  c.causal = true;
  AttentionData data(c);
  data.run(ctx());
  Tensor q = data.q.view(), k = data.k.view(), v = data.v.view();
  OwnedTensor alone(c.dtype, 1, c.seq_q, c.heads_q, c.dim, Layout::bshd);
  for (Tensor* t : {&q, &k, &v}) {
    t->batch = 1;
    t->data = static_cast<float*>(t->data) + t->stride.batch;  // the second sequence
  }
  AttentionOptions options;
  options.causal = true;
  std::vector<float> lse(static_cast<std::size_t>(c.heads_q * c.seq_q));
  options.lse.data = lse.data();
  attention_forward(ctx(), q, k, v, alone.view(), options);
  for (std::int64_t s = 0; s < c.seq_q; ++s)
    for (std::int64_t h = 0; h < c.heads_q; ++h)
      for (std::int64_t d = 0; d < c.dim; ++d) {
        ASSERT_EQ(alone.get(0, s, h, d), data.out.get(1, s, h, d)) << s << " " << h << " " << d;
      }
}

TEST_P(Numbers, FiftyRerunsAreBitEqual) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionCase c;
    c.dtype = dtype;
    c.batch = 2;
    c.heads_q = 4;
    c.heads_kv = 2;
    c.seq_q = 3;
    c.seq_k = 4200;
    c.causal = true;
    AttentionData data(c);
    Context& context = context_for(GetParam(), 4);
    data.run(context);
    const auto out = data.out.bytes();
    const auto lse = data.lse;
    for (int i = 0; i < 50; ++i) {
      data.run(context);
      ASSERT_EQ(data.out.bytes(), out) << i;
      ASSERT_TRUE(std::equal(lse.begin(), lse.end() - 1, data.lse.begin())) << i;
    }
  }
}

TEST_P(Numbers, OffsetsBeyondTwoToThe31) {
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
  data.run(ctx());
  const auto expected = data.out.bytes();
  data.out.fill(kNan);
  attention_forward(ctx(), data.q.view(), k, data.v.view(), data.out.view(), data.options);
  EXPECT_EQ(data.out.bytes(), expected);
}

TEST_P(Numbers, AgreesWithEveryOtherInstructionSet) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    AttentionCase c;
    c.dtype = dtype;
    c.seq_q = 70;
    c.seq_k = 190;
    c.causal = true;
    AttentionData mine(c), theirs(c);
    mine.run(ctx());
    for (const std::string& isa : available_isas()) {
      theirs.run(context_for(isa));
      for (std::int64_t s = 0; s < c.seq_q; ++s)
        for (std::int64_t h = 0; h < c.heads_q; ++h)
          for (std::int64_t d = 0; d < c.dim; ++d) {
            const float a = mine.out.get(0, s, h, d), b = theirs.out.get(0, s, h, d);
            const float tolerance = dtype == DType::f32   ? 2e-6f
                                    : dtype == DType::f16 ? 2e-3f
                                                          : 2e-2f;
            ASSERT_NEAR(a, b, tolerance * std::max(1.0f, std::abs(a)))
                << to_string(dtype) << " on " << isa;
          }
    }
  }
}

TEST_P(Numbers, LeadingDimensionsOfZero) {
  for (int which = 0; which < 3; ++which) {
    AttentionCase c;
    (which == 0 ? c.batch : which == 1 ? c.seq_q : c.heads_q) = 0;
    if (which == 2) c.heads_kv = 0;
    AttentionData data(c);
    data.run(ctx());  // nothing to compute, nothing to crash on
    EXPECT_TRUE(data.out.untouched_outside());
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Numbers, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace hipflash::testing
