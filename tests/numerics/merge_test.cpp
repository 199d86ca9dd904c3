// merge_partials() against float64.
#include "hipflash/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "numerics/operations.h"
#include "numerics/results.h"

namespace hipflash::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct MergeCase {
  DType dtype = DType::f16, part_dtype = DType::f32;
  std::vector<std::int64_t> counts = {1, 1};  // of each part
  std::int64_t batch = 2, seq = 3, heads = 4, dim = 64;
  Layout layout = Layout::bshd;
  float spread = 3.0f;  // of the log-sum-exps
};

class MergeData {
 public:
  explicit MergeData(const MergeCase& given)
      : c(given),
        out(c.dtype, c.batch, c.seq, c.heads, c.dim, c.layout),
        lse(static_cast<std::size_t>(rows()) + 1, std::nanf("")) {
    std::mt19937_64 random(7);
    std::normal_distribution<float> normal(0.0f, c.spread);
    for (std::size_t p = 0; p < c.counts.size(); ++p) {
      // The results of a part are further batch entries of one tensor.
      parts.emplace_back(c.part_dtype, c.batch * c.counts[p], c.seq, c.heads, c.dim, c.layout);
      parts.back().fill_normal(p + 1);
      std::vector<float>& values =
          part_lse.emplace_back(static_cast<std::size_t>(rows() * c.counts[p]));
      for (float& x : values) x = normal(random);
      if (c.counts[p] == 0) continue;
      values[1] = -kInfinity;  // row 1: empty in the first of each part, row 0 in all of them
      for (std::int64_t s = 0; s < c.counts[p]; ++s) {
        values[static_cast<std::size_t>(s * rows())] = -kInfinity;
      }
      for (std::int64_t d = 0; d < c.dim; ++d) parts.back().set(0, 1, 0, d, std::nanf(""));
    }
    for (std::int64_t b = 0; b < c.batch; ++b) out_fill(b);
  }

  std::int64_t rows() const { return c.batch * c.seq * c.heads; }

  void run(Target& target) {
    std::vector<Block> blocks = {block_of(out, true), block_of(lse, true)};
    for (OwnedTensor& part : parts) blocks.push_back(block_of(part));
    for (std::vector<float>& values : part_lse) blocks.push_back(block_of(values));
    target.run(blocks, [&](const Target::Translate& translate) {
      std::vector<PartialResult> given;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        PartialResult part;
        part.out = on_device(parts[p].view(), translate);
        part.out.batch = c.batch;
        part.lse.data = static_cast<float*>(translate(part_lse[p].data()));
        part.count = c.counts[p];
        part.out_step = part.out.stride.batch * c.batch;
        part.lse_step = rows();
        given.push_back(part);
      }
      merge_partials(target.context(), given, on_device(out.view(), translate),
                     {static_cast<float*>(translate(lse.data())), {}});
    });
  }

  void expect_right() {
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t s = 0; s < c.seq; ++s) expect_row(b, s, h);
      }
    }
    EXPECT_TRUE(std::isnan(lse.back()));
    EXPECT_TRUE(out.untouched_outside());
  }

  MergeCase c;
  OwnedTensor out;
  std::vector<OwnedTensor> parts;
  std::vector<std::vector<float>> part_lse;
  std::vector<float> lse;
  double largest_error = 0.0, largest_lse_error = 0.0;

 private:
  void out_fill(std::int64_t b) {
    for (std::int64_t s = 0; s < c.seq; ++s) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t d = 0; d < c.dim; ++d) out.set(b, s, h, d, std::nanf(""));
      }
    }
  }

  void expect_row(std::int64_t b, std::int64_t s, std::int64_t h) {
    const std::int64_t row = (b * c.heads + h) * c.seq + s;
    double sum = 0.0;
    std::vector<double> wanted(static_cast<std::size_t>(c.dim)), size = wanted;
    const auto each = [&](auto&& f) {
      for (std::size_t p = 0; p < parts.size(); ++p) {
        for (std::int64_t n = 0; n < c.counts[p]; ++n) {
          const double x = part_lse[p][static_cast<std::size_t>(n * rows() + row)];
          if (!std::isinf(x)) f(p, n, x);
        }
      }
    };
    each([&](std::size_t, std::int64_t, double x) { sum += std::exp(x); });
    each([&](std::size_t p, std::int64_t n, double x) {
      for (std::int64_t d = 0; d < c.dim; ++d) {
        const double term = std::exp(x) / sum * parts[p].get(n * c.batch + b, s, h, d);
        wanted[static_cast<std::size_t>(d)] += term;
        size[static_cast<std::size_t>(d)] += std::abs(term);
      }
    });
    const float got = lse[static_cast<std::size_t>(row)];
    if (sum == 0.0) {
      EXPECT_EQ(got, -kInfinity);
    } else {
      EXPECT_NEAR(got, std::log(sum), 1e-5);
      largest_lse_error = std::max(largest_lse_error, std::abs(got - std::log(sum)));
    }
    for (std::int64_t d = 0; d < c.dim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const double error = std::abs(out.get(b, s, h, d) - wanted[i]);
      largest_error = std::max(largest_error, error);
      ASSERT_LE(error, 1.01 * rounding(c.dtype, wanted[i]) + 4e-6 * size[i])
          << out.get(b, s, h, d) << " for " << wanted[i] << " at " << b << " " << s << " " << h
          << " " << d;
    }
  }
};

void expect_right(const MergeCase& c, Target& target) {
  MergeData data(c);
  const bool right_so_far = !::testing::Test::HasFailure();
  data.run(target);
  data.expect_right();
  write_result(
      target.context().device(),
      {"merge_partials", c.dtype, c.dim, c.dim, "merge_partials",
       right_so_far && !::testing::Test::HasFailure(), data.largest_error, data.largest_lse_error});
}

TEST_P(SmallOperations, MergesEveryPairOfTypes) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const DType part : {dtype, DType::f32}) {
      MergeCase c;
      c.dtype = dtype;
      c.part_dtype = part;
      expect_right(c, here());
    }
  }
}

TEST_P(SmallOperations, MergesManyPartsOfAnyLayout) {
  MergeCase c;
  c.counts = {3, 1, 0, 5};
  c.layout = Layout::bhsd;
  c.dim = 40;
  expect_right(c, here());
  c.layout = Layout::padded_rows;
  c.dim = 37;
  c.spread = 60.0f;  // weights that vanish
  expect_right(c, here());
}

TEST_P(SmallOperations, MergeOfOneIsACopy) {
  MergeCase c;
  c.dtype = c.part_dtype = DType::bf16;
  c.counts = {1};
  expect_right(c, here());
}

// What a race between threads or blocks would change.
TEST_P(FullOperations, FiftyMergesGiveTheSameBits) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    MergeCase c;
    c.dtype = dtype;
    c.counts = {3, 1, 0, 5};
    c.seq = 37;
    MergeData first(c);
    first.run(here());
    first.expect_right();
    for (int i = 0; i < 50; ++i) {
      MergeData again(c);
      again.run(here());
      ASSERT_TRUE(same_bits(values_of(again.out), values_of(first.out))) << i;
      ASSERT_TRUE(same_bits(again.lse, first.lse)) << i;
    }
  }
}

TEST_P(SmallOperations, MergeRefusesWhatIsNotOneShape) {
  MergeCase c;
  c.part_dtype = DType::bf16;  // the result is f16
  MergeData types(c);
  EXPECT_THROW(types.run(here()), Error);
  EXPECT_THROW(merge_partials(here().context(), {}, types.out.view()), Error);
}

}  // namespace
}  // namespace hipflash::testing
