// The reference itself, held against values computed by hand.
#include "verify/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "hipflash/error.h"
#include "verify/convert.h"
#include "verify/panel_product.h"

namespace hipflash::verify {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Convert, HalfRoundsToNearestEven) {
  EXPECT_EQ(float_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(float_to_f16(-2.0f), 0xc000);
  EXPECT_EQ(float_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(0x1p-24f), 0x0001);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0x0000);  // a tie, to even
  EXPECT_EQ(float_to_f16(0x1.8p-24f), 0x0002);
  EXPECT_EQ(float_to_f16(0x1.ff8p-15f), 0x03ff);
  EXPECT_EQ(float_to_f16(0x1.ffcp-15f), 0x0400);
  EXPECT_EQ(float_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_f16(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(float_to_f16(1.0f + 0x1.8p-10f), 0x3c02);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(kNan))));
}

TEST(Convert, EveryHalfAndBfloatSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<std::uint16_t>(bits);
    const float half = f16_to_float(value);
    if (!std::isnan(half)) {
      EXPECT_EQ(float_to_f16(half), value);
    }
    const float bfloat = bf16_to_float(value);
    if (!std::isnan(bfloat)) {
      EXPECT_EQ(float_to_bf16(bfloat), value);
    }
  }
  EXPECT_EQ(f16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_float(0x7c00), std::numeric_limits<float>::infinity());
}

TEST(Convert, StoreRoundsADoubleOnce) {
  // 1 + 2^-11 + 2^-40 is above the tie between 1 and its neighbour, but its float is the tie.
  std::uint16_t half = 0;
  store(DType::f16, &half, 0, 1.0 + 0x1p-11 + 0x1p-40);
  EXPECT_EQ(half, 0x3c01);
  store(DType::f16, &half, 0, 1.0 + 0x1p-11 - 0x1p-40);
  EXPECT_EQ(half, 0x3c00);
  std::uint16_t bfloat = 0;
  store(DType::bf16, &bfloat, 0, -(1.0 + 0x1p-8 + 0x1p-40));
  EXPECT_EQ(bfloat, 0xbf81);
  EXPECT_EQ(float_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(float_of_bits(0x7f800001u)))));
}

template <class T>
void expect_panel_product_is_exact() {
  std::vector<T> a(kPanelRows * 5);
  std::vector<float> panel(5 * kPanelColumns);
  for (std::size_t x = 0; x < a.size(); ++x) a[x] = static_cast<T>(static_cast<int>(x % 7) - 3);
  for (std::size_t x = 0; x < panel.size(); ++x) {
    panel[x] = static_cast<float>(static_cast<int>(x % 11) - 5);
  }
  T c[kPanelRows * kPanelColumns];
  panel_product<T>()(a.data(), 5, panel.data(), 1, 4, c);
  for (int r = 0; r < kPanelRows; ++r) {
    for (int col = 0; col < kPanelColumns; ++col) {
      T sum = 0;
      for (int k = 1; k < 4; ++k) {
        sum += a[static_cast<std::size_t>(r * 5 + k)] *
               static_cast<T>(panel[static_cast<std::size_t>(k * kPanelColumns + col)]);
      }
      EXPECT_EQ(c[r * kPanelColumns + col], sum);
    }
  }
}

TEST(PanelProduct, SmallIntegersAreExact) {
  expect_panel_product_is_exact<float>();
  expect_panel_product_is_exact<double>();
}

// One head of dimension 1 with scale 1: score(i, j) = q[i] * k[j], so everything is easy by hand.
struct Line {
  Line(std::vector<float> q_in, std::vector<float> k_in, std::vector<float> v_in)
      : q(std::move(q_in)), k(std::move(k_in)), v(std::move(v_in)) {
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.head_dim = problem.value_head_dim = 1;
    problem.seq_q = static_cast<std::int64_t>(q.size());
    problem.seq_k = static_cast<std::int64_t>(k.size());
    problem.set_dense_bshd();
    problem.scale = 1.0f;
    tensors.q = q.data();
    tensors.k = k.data();
    tensors.v = v.data();
  }
  Reference run(const ReferenceOptions& options = {}) const {
    return attention_f64(problem, tensors, options);
  }
  std::vector<float> q, k, v;
  Problem problem;
  TensorPointers tensors;
};

TEST(Reference, TwoKeysByHand) {
  Line line({1.0f, 2.0f}, {0.0f, 1.0f}, {10.0f, 20.0f});
  const Reference result = line.run();
  const double e = std::exp(1.0), e2 = std::exp(2.0);
  EXPECT_NEAR(result.out[0], (10 + 20 * e) / (1 + e), 1e-14);
  EXPECT_NEAR(result.out[1], (10 + 20 * e2) / (1 + e2), 1e-14);
  EXPECT_NEAR(result.lse[0], std::log(1 + e), 1e-14);
  EXPECT_NEAR(result.lse[1], std::log(1 + e2), 1e-14);
}

TEST(Reference, CausalAlignments) {
  // Two queries, four keys, all scores 0: the output is the mean of the visible values.
  Line line({0, 0}, {0, 0, 0, 0}, {1, 2, 4, 8});
  line.problem.causal = true;
  Reference result = line.run();
  EXPECT_DOUBLE_EQ(result.out[0], 7.0 / 3);
  EXPECT_DOUBLE_EQ(result.out[1], 15.0 / 4);
  EXPECT_DOUBLE_EQ(result.lse[0], std::log(3.0));
  line.problem.alignment = MaskAlignment::top_left;
  result = line.run();
  EXPECT_DOUBLE_EQ(result.out[0], 1.0);
  EXPECT_DOUBLE_EQ(result.out[1], 1.5);
}

TEST(Reference, MoreQueriesThanKeysLeavesRowsEmpty) {
  Line line({0, 0, 0}, {0}, {5});
  line.problem.causal = true;
  const Reference result = line.run();
  EXPECT_EQ(result.out, (std::vector<double>{0, 0, 5}));
  EXPECT_EQ(result.lse, (std::vector<double>{-kInf, -kInf, 0}));
}

TEST(Reference, NoKeysAtAll) {
  Line line({1, 2}, {}, {});
  const Reference result = line.run();
  EXPECT_EQ(result.out, (std::vector<double>{0, 0}));
  EXPECT_EQ(result.lse, (std::vector<double>{-kInf, -kInf}));
}

TEST(Reference, WindowIsInclusiveOnBothSides) {
  Line line({0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {1, 2, 4, 8, 16});
  line.problem.window = {1, 0};
  Reference result = line.run();
  EXPECT_DOUBLE_EQ(result.out[0], 1);
  EXPECT_DOUBLE_EQ(result.out[3], (4 + 8) / 2.0);
  line.problem.window = {-1, 1};
  result = line.run();
  EXPECT_DOUBLE_EQ(result.out[0], 1.5);
  EXPECT_DOUBLE_EQ(result.out[4], 31 / 5.0);
  line.problem.window = {1, 2};
  line.problem.causal = true;  // takes the right side away
  result = line.run();
  EXPECT_DOUBLE_EQ(result.out[2], 3);
  line.problem.window = {std::numeric_limits<std::int64_t>::max(), 0};
  result = line.run();
  EXPECT_DOUBLE_EQ(result.out[4], 31 / 5.0);
}

TEST(Reference, SoftcapAlibiAndBias) {
  Line line({3}, {1, 2}, {1, 3});
  line.problem.softcap = 2.0f;
  Reference result = line.run();
  const double s0 = 2 * std::tanh(1.5), s1 = 2 * std::tanh(3.0);
  EXPECT_NEAR(result.lse[0], std::log(std::exp(s0) + std::exp(s1)), 1e-14);

  line.problem.softcap = 0;
  const float slope = 0.5f;
  line.problem.features.alibi = true;
  line.tensors.alibi = &slope;
  result = line.run();  // the query stands at key 1: distances 1 and 0
  EXPECT_NEAR(result.lse[0], std::log(std::exp(2.5) + std::exp(6.0)), 1e-14);

  const float bias[2] = {4.0f, -std::numeric_limits<float>::infinity()};
  line.problem.features.bias = true;
  line.problem.bias = {0, 0, 0, 1};
  line.tensors.bias = bias;
  result = line.run();
  EXPECT_NEAR(result.lse[0], 6.5, 1e-14);
  EXPECT_EQ(result.out[0], 1.0);
}

TEST(Reference, BoolMaskHidesWhereZero) {
  Line line({0, 0}, {0, 0, 0}, {1, 2, 4});
  const unsigned char mask[6] = {1, 0, 1, 0, 0, 0};
  line.problem.features.mask = true;
  line.problem.mask = {0, 0, 3, 1};
  line.tensors.mask = mask;
  const Reference result = line.run();
  EXPECT_DOUBLE_EQ(result.out[0], 2.5);
  EXPECT_EQ(result.out[1], 0.0);
  EXPECT_EQ(result.lse[1], -kInf);
}

TEST(Reference, NanReachesOnlyTheRowsThatSeeIt) {
  Line line({1, 1, kNan}, {1, 1, 1}, {1, kNan, 3});
  line.problem.causal = true;
  Reference result = line.run();
  EXPECT_EQ(result.out[0], 1.0);
  EXPECT_TRUE(std::isnan(result.out[1]));
  EXPECT_TRUE(std::isnan(result.out[2]));
  EXPECT_FALSE(std::isnan(result.lse[1]));
  EXPECT_TRUE(std::isnan(result.lse[2]));

  Line hidden({1}, {1, kNan}, {7, kNan});
  const unsigned char mask[2] = {1, 0};
  hidden.problem.features.mask = true;
  hidden.problem.mask = {0, 0, 0, 1};
  hidden.tensors.mask = mask;
  result = hidden.run();
  EXPECT_EQ(result.out[0], 7.0);
  EXPECT_EQ(result.lse[0], 1.0);
}

TEST(Reference, HugeScoresPickTheLargest) {
  Line line({-6e4f}, {1.0f, 0.5f, 0.75f}, {1, 2, 3});
  const Reference result = line.run();
  EXPECT_EQ(result.out[0], 2.0);
  EXPECT_EQ(result.lse[0], -3e4);
}

// A problem with every dimension different, checked against a direct transcription of the formula.
struct Case {
  explicit Case(DType dtype_in) : dtype(dtype_in) {
    problem.dtype = dtype;
    problem.batch = 2;
    problem.heads_q = 6;
    problem.heads_kv = 2;
    problem.seq_q = 37;
    problem.seq_k = 53;
    problem.head_dim = 19;
    problem.value_head_dim = 35;
    problem.set_dense_bshd();
    problem.features.lse = true;
    q = random(problem.batch * problem.seq_q * problem.heads_q * problem.head_dim, 1);
    k = random(problem.batch * problem.seq_k * problem.heads_kv * problem.head_dim, 2);
    v = random(problem.batch * problem.seq_k * problem.heads_kv * problem.value_head_dim, 3);
    out.resize(static_cast<std::size_t>(problem.batch * problem.seq_q * problem.heads_q *
                                        problem.value_head_dim) *
               size_of(dtype));
    lse.resize(static_cast<std::size_t>(problem.batch * problem.seq_q * problem.heads_q));
    tensors.q = q.data();
    tensors.k = k.data();
    tensors.v = v.data();
    tensors.out = out.data();
    tensors.lse = lse.data();
  }

  std::vector<unsigned char> random(std::int64_t count, unsigned seed) const {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    std::vector<unsigned char> data(static_cast<std::size_t>(count) * size_of(dtype));
    for (std::int64_t x = 0; x < count; ++x) store(dtype, data.data(), x, normal(generator));
    return data;
  }

  double q_at(std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t d) const {
    return static_cast<double>(
        load(dtype, q.data(), b * problem.q.batch + i * problem.q.seq + h * problem.q.head + d));
  }
  double k_at(std::int64_t b, std::int64_t j, std::int64_t h, std::int64_t d) const {
    return static_cast<double>(
        load(dtype, k.data(), b * problem.k.batch + j * problem.k.seq + h * problem.k.head + d));
  }
  double v_at(std::int64_t b, std::int64_t j, std::int64_t h, std::int64_t d) const {
    return static_cast<double>(
        load(dtype, v.data(), b * problem.v.batch + j * problem.v.seq + h * problem.v.head + d));
  }

  // Puts a reference into the result tensors, as a perfect kernel would.
  void store_result(const Reference& reference) {
    std::size_t at = 0;
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      for (std::int64_t i = 0; i < problem.seq_q; ++i) {
        for (std::int64_t h = 0; h < problem.heads_q; ++h) {
          for (std::int64_t d = 0; d < problem.value_head_dim; ++d) {
            store(dtype, out.data(),
                  b * problem.out.batch + i * problem.out.seq + h * problem.out.head + d,
                  reference.out[at++]);
          }
        }
      }
    }
    at = 0;
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      for (std::int64_t h = 0; h < problem.heads_q; ++h) {
        for (std::int64_t i = 0; i < problem.seq_q; ++i) {
          lse[static_cast<std::size_t>(b * problem.lse.batch + i * problem.lse.seq +
                                       h * problem.lse.head)] =
              static_cast<float>(reference.lse[at++]);
        }
      }
    }
  }

  DType dtype;
  Problem problem;
  std::vector<unsigned char> q, k, v, out;
  std::vector<float> lse;
  TensorPointers tensors;
};

TEST(Reference, MatchesTheFormulaWithEveryDimensionDifferent) {
  const Case c(DType::f32);
  const Problem& p = c.problem;
  const Reference result = attention_f64(p, c.tensors);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads_q; ++h) {
      for (std::int64_t i = 0; i < p.seq_q; ++i) {
        std::vector<double> sums(static_cast<std::size_t>(p.value_head_dim));
        double total = 0;
        for (std::int64_t j = 0; j < p.seq_k; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < p.head_dim; ++d) {
            score += c.q_at(b, i, h, d) * c.k_at(b, j, h / 3, d);
          }
          const double weight = std::exp(score * static_cast<double>(p.scale));
          total += weight;
          for (std::int64_t d = 0; d < p.value_head_dim; ++d) {
            sums[static_cast<std::size_t>(d)] += weight * c.v_at(b, j, h / 3, d);
          }
        }
        for (std::int64_t d = 0; d < p.value_head_dim; ++d) {
          const std::int64_t at = ((b * p.seq_q + i) * p.heads_q + h) * p.value_head_dim + d;
          ASSERT_NEAR(result.out[static_cast<std::size_t>(at)],
                      sums[static_cast<std::size_t>(d)] / total, 1e-12);
        }
        const std::int64_t at = (b * p.heads_q + h) * p.seq_q + i;
        ASSERT_NEAR(result.lse[static_cast<std::size_t>(at)], std::log(total), 1e-12);
      }
    }
  }
}

TEST(Reference, ThreadsAndSamplingDoNotChangeAnything) {
  const Case c(DType::f16);
  ReferenceOptions one;
  one.threads = 1;
  const Reference all = attention_f64(c.problem, c.tensors, one);
  ReferenceOptions sampled;
  sampled.threads = 3;
  sampled.most_queries = 5;
  EXPECT_EQ(queries_of(c.problem, sampled), (std::vector<std::int64_t>{0, 9, 18, 27, 36}));
  const Reference some = attention_f64(c.problem, c.tensors, sampled);
  const std::int64_t width = c.problem.heads_q * c.problem.value_head_dim;
  for (std::int64_t b = 0; b < c.problem.batch; ++b) {
    for (std::int64_t n = 0; n < 5; ++n) {
      for (std::int64_t x = 0; x < width; ++x) {
        ASSERT_EQ(some.out[static_cast<std::size_t>((b * 5 + n) * width + x)],
                  all.out[static_cast<std::size_t>((b * c.problem.seq_q + n * 9) * width + x)]);
      }
    }
  }
  EXPECT_EQ(sample_queries(4, 100), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(sample_queries(4, 1), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(sample_queries(0, 3).empty());
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::vector<std::int64_t> sample = sample_queries(1000, 64, seed);
    EXPECT_EQ(sample.size(), 64u);
    EXPECT_EQ(std::adjacent_find(sample.begin(), sample.end(), std::greater_equal<>()),
              sample.end());
    EXPECT_EQ(sample.front(), 0);
    EXPECT_EQ(sample.back(), 999);
    seen.insert(sample.begin(), sample.end());
  }
  EXPECT_GT(seen.size(), 960u);  // all but those beside the first and the last
}

TEST(Reference, AnyStrides) {
  Case c(DType::f32);
  const Reference dense = attention_f64(c.problem, c.tensors);
  // The same K as (batch, heads, seq, dim), with a gap after every row.
  const Problem& p = c.problem;
  const Strides bhsd{p.heads_kv * p.seq_k * (p.head_dim + 3), p.head_dim + 3,
                     p.seq_k * (p.head_dim + 3)};
  std::vector<float> moved(static_cast<std::size_t>(p.batch * bhsd.batch), kNan);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t j = 0; j < p.seq_k; ++j) {
      for (std::int64_t h = 0; h < p.heads_kv; ++h) {
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          moved[static_cast<std::size_t>(b * bhsd.batch + j * bhsd.seq + h * bhsd.head + d)] =
              static_cast<float>(c.k_at(b, j, h, d));
        }
      }
    }
  }
  c.problem.k = bhsd;
  c.tensors.k = moved.data();
  EXPECT_EQ(attention_f64(c.problem, c.tensors).out, dense.out);
}

TEST(Reference, RefusesWhatItCannotCompute) {
  Line line({1}, {1}, {1});
  line.problem.features.dropout = true;
  try {
    line.run();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotSupported);
    EXPECT_NE(std::string(error.what()).find("dropout"), std::string::npos);
  }
}

class Rule : public testing::TestWithParam<DType> {};

TEST_P(Rule, AcceptsTheReferenceAndThePlainComputation) {
  Case c(GetParam());
  const Reference reference = attention_f64(c.problem, c.tensors);
  c.store_result(reference);
  EXPECT_TRUE(check(c.problem, c.tensors).ok()) << check(c.problem, c.tensors).text();
  // The LSE of the plain computation is of scores in 16 bits, which no kernel has.
  Reference low = attention_low(c.problem, c.tensors);
  if (c.dtype != DType::f32) low.lse = reference.lse;
  c.store_result(low);
  const Verdict verdict = check(c.problem, c.tensors);
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  EXPECT_GT(verdict.out.max_error, 0);
  EXPECT_LT(verdict.out.bound, c.dtype == DType::f32 ? 1e-5 : c.dtype == DType::f16 ? 5e-3 : 4e-2);
}

TEST_P(Rule, RejectsOneWrongElement) {
  Case c(GetParam());
  const Reference reference = attention_f64(c.problem, c.tensors);
  c.store_result(reference);
  const double wrong = static_cast<double>(load(c.dtype, c.out.data(), 4321)) + 0.05;
  store(c.dtype, c.out.data(), 4321, wrong);
  Verdict verdict = check(c.problem, c.tensors);
  EXPECT_FALSE(verdict.out.ok);
  // 4321 = ((0 * 37 + 20) * 6 + 3) * 35 + 16
  EXPECT_NE(verdict.text().find("out[batch 0, query 20, head 3, dim 16]"), std::string::npos)
      << verdict.text();

  c.store_result(reference);
  store(c.dtype, c.out.data(), 7, std::numeric_limits<double>::quiet_NaN());
  verdict = check(c.problem, c.tensors);
  EXPECT_FALSE(verdict.out.ok);
  EXPECT_NE(verdict.text().find("nan"), std::string::npos) << verdict.text();

  c.store_result(reference);
  c.lse[40] += 0.1f;
  verdict = check(c.problem, c.tensors);
  EXPECT_TRUE(verdict.out.ok);
  EXPECT_FALSE(verdict.lse.ok);
}

// Rows that see keys of very negative bias only have an LSE of -6e4: they give nothing to others.
TEST_P(Rule, HoldsEachRowOfTheLseAgainstItsOwnSize) {
  Case c(GetParam());
  std::vector<float> bias(static_cast<std::size_t>(c.problem.seq_q), 0.0f);
  bias[1] = -6e4f;
  c.problem.features.bias = true;
  c.problem.bias = {0, 0, 1, 0};
  c.problem.bias_dtype = DType::f32;
  c.tensors.bias = bias.data();
  const Reference reference = attention_f64(c.problem, c.tensors);
  c.store_result(reference);
  ASSERT_TRUE(check(c.problem, c.tensors).ok()) << check(c.problem, c.tensors).text();
  const auto at = [&](std::int64_t query) {
    return static_cast<std::size_t>(query * c.problem.lse.seq);
  };
  ASSERT_LT(c.lse[at(1)], -5e4f);
  c.lse[at(1)] += 1.0f;  // of 6e4: within the bound in 16 bits
  EXPECT_EQ(check(c.problem, c.tensors).ok(), c.dtype != DType::f32);
  c.store_result(reference);
  c.lse[at(5)] += 0.02f;
  EXPECT_FALSE(check(c.problem, c.tensors).lse.ok);
}

INSTANTIATE_TEST_SUITE_P(Types, Rule, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& parameter) { return to_string(parameter.param); });

}  // namespace
}  // namespace hipflash::verify
