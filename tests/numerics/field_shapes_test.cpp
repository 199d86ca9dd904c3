// The shapes that the field's own suites run, over head dimensions, dtypes, head groups and masks.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "numerics/attention_case.h"

namespace hipflash::testing {
namespace {

constexpr std::int64_t kDims[] = {32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256};
constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {113, 203}, {128, 217},   {113, 211},   {108, 256},   {256, 512},
    {512, 256}, {1024, 1024}, {1023, 1024}, {1024, 1023}, {2048, 2048}};
constexpr std::pair<std::int64_t, std::int64_t> kCausalShapes[] = {
    {1, 239}, {3, 799}, {127, 512}, {127, 513}, {239, 1}, {799, 3}, {512, 127}, {513, 127}};
constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

void set_heads(AttentionCase& c, std::size_t kind) {
  c.heads_q = 6;
  c.heads_kv = kind == 0 ? 6 : kind == 1 ? 2 : 1;  // mha, gqa, mqa
}

class FieldShapes : public ::testing::TestWithParam<std::string> {
 protected:
  // Runs the case where it tells something new: the bf16 form is the AVX-512 one but for bf16, and
  // the portable one is slow, so it takes a third of the cases, drawn at random.
  void check(const AttentionCase& c) {
    if (GetParam() == "avx512_bf16" && c.dtype != DType::bf16) return;
    if (GetParam() == "portable" && thirds_() % 3 != 0) return;
    expect_right(c, GetParam());
  }

 private:
  std::mt19937 thirds_;
};

// Every pair of (dim, dtype) meets both masks, and the shapes of each in turn; layout and heads are
// drawn, so that no choice goes with another one.
TEST_P(FieldShapes, FullAndCausal) {
  std::mt19937_64 random(3);
  std::uint64_t turn = 0;
  for (const auto dim : kDims) {
    for (const auto dtype : kDtypes) {
      for (int part = 0; part < 3; ++part, ++turn) {
        AttentionCase c;
        c.dtype = dtype;
        c.dim = dim;
        c.seed = turn;
        c.layout = static_cast<Layout>(random() % 4);
        set_heads(c, random() % 3);
        c.causal = part != 0;
        const auto& shape = part == 2 ? kCausalShapes[random() % std::size(kCausalShapes)]
                                      : kShapes[random() % std::size(kShapes)];
        std::tie(c.seq_q, c.seq_k) = shape;
        if (c.seq_q * c.seq_k > 300000) {
          c.heads_q = 2;
          c.heads_kv = 1;
        }
        check(c);
      }
    }
  }
}

TEST_P(FieldShapes, RandomWindows) {
  std::mt19937_64 random(17);
  for (std::uint64_t i = 0; i < 24; ++i) {
    AttentionCase c;
    c.dtype = kDtypes[random() % 3];
    c.dim = random() % 2 ? 64 : 128;
    set_heads(c, random() % 3);
    std::tie(c.seq_q, c.seq_k) = kShapes[i % 6];
    const auto pick = [&] {
      return random() % 4 == 0
                 ? -1
                 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.seq_k));
    };
    c.window = {pick(), pick()};
    c.alignment = random() % 3 ? MaskAlignment::bottom_right : MaskAlignment::top_left;
    c.causal = random() % 6 == 0;
    c.seed = i;
    check(c);
  }
}

TEST_P(FieldShapes, Softcap) {
  for (const auto dtype : kDtypes) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.dtype = dtype;
      c.seq_q = 113;
      c.seq_k = 203;
      c.dim = 128;
      c.causal = causal;
      c.softcap = 50.0f;
      c.query_factor = 50.0f;
      check(c);
    }
  }
}

TEST_P(FieldShapes, Alibi) {
  for (const auto dtype : kDtypes) {
    for (const auto& [seq_q, seq_k] : kCausalShapes) {
      AttentionCase c;
      c.dtype = dtype;
      c.batch = 2;
      std::tie(c.seq_q, c.seq_k) = std::pair{seq_q, seq_k};
      c.causal = seq_q % 2 == 1;
      c.alibi = true;
      c.alibi_per_batch = seq_k % 2 == 1;
      check(c);
    }
  }
}

TEST_P(FieldShapes, BiasAndMask) {
  int turn = 0;
  for (const auto dtype : kDtypes) {
    for (const Cells bias : {Cells::none, Cells::full, Cells::shared_heads, Cells::one_row}) {
      for (const Cells mask : {Cells::none, Cells::full, Cells::one_row}) {
        AttentionCase c;
        c.dtype = dtype;
        c.batch = 2;
        set_heads(c, static_cast<std::size_t>(turn % 3));
        c.seq_q = 65;
        c.seq_k = 97 + turn % 3;
        c.bias = bias;
        c.bias_in_dtype = turn % 2 == 1;
        c.mask = mask;
        c.causal = turn % 3 == 0;
        c.softcap = turn % 4 == 0 ? 3.0f : 0.0f;
        c.seed = static_cast<std::uint64_t>(turn++);
        check(c);
      }
    }
  }
}

TEST_P(FieldShapes, EveryHeadDimension) {
  // One general kernel per dtype serves odd dimensions as well as specialized ones; a spread of
  // specialized ones is compiled here, the extremes among them.
  int turn = 0;
  for (const std::int64_t dim :
       {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 65, 72, 80, 100, 255, 257, 384, 511, 512}) {
    AttentionCase c;
    c.dtype = kDtypes[turn % 3];
    c.dim = dim;
    c.value_dim = turn % 2 ? 513 - dim : 0;
    c.seq_q = 37;
    c.seq_k = 70;
    c.heads_q = 4;
    c.layout = static_cast<Layout>(turn % 4);
    c.causal = turn % 3 == 1;
    c.seed = static_cast<std::uint64_t>(turn++);
    if (c.layout == Layout::packed_qkv && c.value_dim) c.layout = Layout::bhsd;
    check(c);
  }
}

// Few rows walk over the heads of a token together where these lie side by side.
TEST_P(FieldShapes, FewRowsOfHeadsSideBySide) {
  std::vector<AttentionCase> cases(4);
  cases[0].heads_q = 12;
  cases[0].heads_kv = 6;
  cases[1].heads_q = cases[1].heads_kv = 6;
  cases[1].seq_q = 3;
  cases[1].dim = 40;
  cases[1].causal = true;
  cases[1].window = {900, -1};
  cases[2].heads_q = cases[2].heads_kv = 40;
  cases[3].heads_q = cases[3].heads_kv = 7;
  cases[3].seq_q = 2;
  cases[3].dim = 96;
  cases[3].alibi = true;
  cases[3].mask = Cells::full;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    AttentionCase c = cases[i];
    c.batch = 2;
    if (i % 2 == 0) c.seq_q = 1;
    c.seq_k = 1301;
    for (const auto dtype : kDtypes) {
      c.dtype = dtype;
      for (const auto layout : {Layout::bshd, Layout::padded_rows, Layout::bhsd}) {
        c.layout = layout;
        ++c.seed;
        check(c);
      }
    }
  }
}

TEST_P(FieldShapes, LongKeysAreSplitAndMerged) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t seq_q : {1, 16}) {
      if (GetParam() == "avx512_bf16" && dtype != DType::bf16) continue;
      AttentionCase c;
      c.dtype = dtype;
      c.heads_q = 2;
      c.heads_kv = 1;
      c.seq_q = seq_q;
      c.seq_k = seq_q == 1 ? 5003 : 100000;
      c.dim = 64;
      c.causal = true;
      AttentionData data(c);
      data.run(context_for(GetParam(), 4));
      const verify::Verdict verdict = data.verdict();
      EXPECT_TRUE(verdict.ok()) << c << ": " << verdict.text();
      EXPECT_GT(context_for(GetParam(), 4).plan(data.problem()).explanation().splits, 1) << c;
    }
  }
}

TEST_P(FieldShapes, AgreesWithEveryOtherInstructionSet) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    AttentionCase c;
    c.dtype = dtype;
    c.seq_q = 70;
    c.seq_k = 190;
    c.causal = true;
    AttentionData mine(c), theirs(c);
    mine.run(context_for(GetParam()));
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

INSTANTIATE_TEST_SUITE_P(Isa, FieldShapes, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace hipflash::testing
