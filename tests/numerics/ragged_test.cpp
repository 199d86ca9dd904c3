// Sequences of different lengths, caches, pages and sinks: what must hold on every platform.
// All calls here are small enough for an emulated device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numerics/ragged_case.h"

namespace hipflash::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr KeyForm kForms[] = {KeyForm::packed, KeyForm::cache, KeyForm::paged};

class SmallRagged : public ::testing::TestWithParam<std::string> {
 protected:
  Target& here() { return target(GetParam()); }
  void check(const RaggedCase& c) { expect_right(c, GetParam()); }
};

TEST_P(SmallRagged, RowsThatSeeNothing) {
  RaggedCase c;
  c.heads_q = c.heads_kv = 1;
  c.dim = 32;
  c.queries = {76, 34, 146};  // cu_q 0, 76, 110, 256
  c.keys = {1, 1, 1};         // cu_k 0, 1, 2, 3
  c.causal = true;
  RaggedData data(c);
  data.run(here());
  for (std::int64_t b = 0; b < 3; ++b) {
    const std::vector<float> out = data.out_of(b), lse = data.lse_of(b);
    const std::size_t last = lse.size() - 1;  // the only query that sees the key
    EXPECT_TRUE(std::all_of(out.begin(), out.end() - 32, [](float x) { return x == 0.0f; })) << b;
    EXPECT_TRUE(std::all_of(lse.begin(), lse.end() - 1, [](float x) { return x == -kInfinity; }));
    EXPECT_TRUE(std::isfinite(lse[last]));
  }
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(SmallRagged, EmptySequences) {
  RaggedCase c;
  c.dtype = DType::bf16;
  c.heads_q = 9;
  c.heads_kv = 3;
  c.queries = {0, 1, 0, 1};
  c.keys = {0, 3, 0, 5};
  for (const KeyForm form : kForms) {
    c.form = form;
    check(c);
  }
  c.queries = {1, 1, 1, 1};
  for (const KeyForm form : kForms) {
    c.form = form;
    for (const bool packed_q : {true, false}) {
      c.packed_q = packed_q;
      check(c);
    }
  }
  c.packed_q = true;
  c.queries = {0, 0, 0, 0};
  for (const KeyForm form : kForms) {
    c.form = form;
    c.gap = 3;  // rows of no sequence, so that there is a tensor
    check(c);
  }
  c.keys = {0, 0, 0, 0};
  c.queries = {2, 0, 1, 0};
  for (const KeyForm form : kForms) {
    c.form = form;
    check(c);
  }
}

TEST_P(SmallRagged, EveryDtypeAndForm) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const KeyForm form : kForms) {
      RaggedCase c;
      c.dtype = dtype;
      c.queries = {70, 1, 0, 33};
      c.keys = {90, 40, 7, 33};
      c.form = form;
      c.causal = true;
      c.gap = form == KeyForm::packed ? 5 : 0;
      check(c);
    }
  }
}

TEST_P(SmallRagged, HeadDimensionsWithTails) {
  for (const std::int64_t dim : {40, 59, 128}) {
    RaggedCase c;
    c.dim = dim;
    c.queries = {5, 20};
    c.keys = {30, 70};
    c.form = KeyForm::paged;
    check(c);
  }
}

TEST_P(SmallRagged, LongRowsOfEveryDtypeAndForm) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const std::int64_t dim : {128, 256}) {
      for (const KeyForm form : kForms) {
        RaggedCase c;
        c.dtype = dtype;
        c.dim = dim;
        c.queries = {20, 1};
        c.keys = {45, 30};
        c.form = form;
        c.causal = c.sinks = true;
        check(c);
      }
    }
  }
}

TEST_P(SmallRagged, ModifiersAndMasksCountWithinTheSequence) {
  for (const KeyForm form : kForms) {
    RaggedCase c;
    c.queries = {20, 3, 31};
    c.keys = {45, 50, 12};
    c.form = form;
    c.window = {20, 3};
    c.softcap = 5.0f;
    c.alibi = c.bias = c.mask = c.sinks = true;
    check(c);
  }
}

TEST_P(SmallRagged, TopLeftAlignment) {
  RaggedCase c;
  c.queries = {20, 3};
  c.keys = {12, 30};
  c.causal = true;
  c.alignment = MaskAlignment::top_left;
  check(c);
}

TEST_P(SmallRagged, AlibiAsInADenseCall) {
  RaggedCase c;
  c.dtype = DType::f32;
  c.queries = {17, 17};
  c.keys = {40, 40};
  c.alibi = c.causal = true;
  RaggedData packed(c);
  c.packed_q = false;
  c.form = KeyForm::dense;
  RaggedData dense(c);
  packed.run(here());
  dense.run(here());
  for (std::int64_t b = 0; b < 2; ++b) {
    const std::vector<float> x = packed.out_of(b), y = dense.out_of(b);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 2e-6f) << b << " " << i;
  }
  EXPECT_TRUE(dense.verdict().ok()) << dense.verdict().text();
}

TEST_P(SmallRagged, OffsetsOf64Bits) {
  for (const KeyForm form : kForms) {
    RaggedCase c;
    c.queries = {8, 0, 19};
    c.keys = {33, 2, 19};
    c.form = form;
    RaggedData narrow(c);
    c.offsets_are_64bit = true;
    RaggedData wide(c);
    narrow.run(here());
    wide.run(here());
    for (std::int64_t b = 0; b < 3; ++b) EXPECT_EQ(narrow.out_of(b), wide.out_of(b));
    EXPECT_TRUE(wide.verdict().ok()) << wide.verdict().text();
  }
}

TEST_P(SmallRagged, WithoutHints) {
  RaggedCase c;
  c.queries = {40, 0, 1, 9};
  c.keys = {50, 6, 0, 90};
  c.hints = false;
  c.causal = true;
  check(c);
  c.form = KeyForm::paged;
  check(c);
}

TEST_P(SmallRagged, SlotsAndLeftPadding) {
  for (const KeyForm form : {KeyForm::cache, KeyForm::paged}) {
    for (const bool packed_q : {true, false}) {
      RaggedCase c;
      c.queries = {2, 2, 2, 2};
      c.keys = {13, 0, 64, 31};
      c.packed_q = packed_q;
      c.form = form;
      c.batch_index = c.left_padding = true;
      c.spare_slots = 3;
      c.capacity = 90;
      c.causal = true;
      check(c);
    }
  }
}

TEST_P(SmallRagged, WhatNoSequenceOwnsChangesNothing) {
  for (const KeyForm form : kForms) {
    RaggedCase c;
    c.queries = {9, 1, 30};
    c.keys = {21, 0, 47};
    c.form = form;
    c.left_padding = c.batch_index = form != KeyForm::packed;
    c.spare_slots = 1;
    c.gap = 4;
    RaggedData dirty(c);  // NaN
    c.unused = 0.0f;
    RaggedData clean(c);
    dirty.run(here());
    clean.run(here());
    for (std::int64_t b = 0; b < 3; ++b) {
      EXPECT_EQ(dirty.out_of(b), clean.out_of(b)) << b;
      EXPECT_EQ(dirty.lse_of(b), clean.lse_of(b)) << b;
    }
    EXPECT_TRUE(dirty.untouched());
  }
}

TEST_P(SmallRagged, NanInAnotherSequence) {
  for (const KeyForm form : kForms) {
    RaggedCase c;
    c.queries = {9, 5, 30};
    c.keys = {21, 18, 47};
    c.form = form;
    c.page_size = 3;
    RaggedData clean(c), dirty(c);
    for (OwnedTensor* tensor : {&dirty.k, &dirty.v}) {
      const auto spoil = [&](std::int64_t batch, std::int64_t row) {
        tensor->set(batch, row, 0, 5, std::numeric_limits<float>::quiet_NaN());
      };
      for (std::int64_t j = 0; j < 18; ++j) {  // all keys of sequence 1
        if (form == KeyForm::packed) spoil(0, 21 + j);
        if (form == KeyForm::cache) spoil(1, j);
        if (form == KeyForm::paged) {
          const auto entry = static_cast<std::size_t>(dirty.options.paged.row_stride + j / 3);
          spoil(dirty.table[entry], j % 3);
        }
      }
    }
    clean.run(here());
    dirty.run(here());
    for (const std::int64_t b : {0, 2}) {
      EXPECT_EQ(dirty.out_of(b), clean.out_of(b)) << b;
      EXPECT_EQ(dirty.lse_of(b), clean.lse_of(b)) << b;
    }
    EXPECT_TRUE(std::isnan(dirty.out_of(1)[5]));
  }
}

TEST_P(SmallRagged, PagesOfAnySizeEqualADenseCache) {
  for (const std::int64_t queries : {1, 20}) {
    RaggedCase c;
    c.queries = {queries, queries};
    c.keys = {70, 201};
    c.capacity = 768;  // whole pages of every size
    c.packed_q = false;
    c.causal = true;
    c.batch_invariant = true;
    c.form = KeyForm::cache;
    RaggedData dense(c);
    dense.run(here());
    EXPECT_TRUE(dense.verdict().ok()) << dense.verdict().text();
    for (const std::int64_t page_size : {1, 3, 16, 256}) {
      c.form = KeyForm::paged;
      c.page_size = page_size;
      RaggedData paged(c);
      paged.run(here());
      for (std::int64_t b = 0; b < 2; ++b) {
        EXPECT_EQ(paged.out_of(b), dense.out_of(b)) << "page size " << page_size << " of " << b;
        EXPECT_EQ(paged.lse_of(b), dense.lse_of(b)) << "page size " << page_size << " of " << b;
      }
    }
  }
}

TEST_P(SmallRagged, OneSequenceAloneAndInABatch) {
  for (const KeyForm form : kForms) {
    RaggedCase c;
    c.queries = {30, 1, 7, 100};
    c.keys = {120, 300, 7, 150};
    c.form = form;
    c.causal = true;
    c.batch_invariant = true;
    RaggedData together(c);
    together.run(here());
    EXPECT_TRUE(together.verdict().ok()) << together.verdict().text();
    for (std::int64_t b = 0; b < c.batch(); ++b) {
      // The others have nothing: the sequence keeps its number, and so its data.
      RaggedCase one = c;
      for (std::int64_t other = 0; other < c.batch(); ++other) {
        if (other == b) continue;
        one.queries[static_cast<std::size_t>(other)] = 0;
        one.keys[static_cast<std::size_t>(other)] = 0;
      }
      RaggedData alone(one);
      alone.run(here());
      EXPECT_EQ(alone.out_of(b), together.out_of(b)) << b;
      EXPECT_EQ(alone.lse_of(b), together.lse_of(b)) << b;
    }
    RaggedCase first = c;
    first.queries.resize(1);
    first.keys.resize(1);
    RaggedData alone(first);
    alone.run(here());
    EXPECT_EQ(alone.out_of(0), together.out_of(0));
    EXPECT_EQ(alone.lse_of(0), together.lse_of(0));
  }
}

TEST_P(SmallRagged, SinksOfADenseCall) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const std::int64_t keys : {90, 3, 0}) {
      RaggedCase c;
      c.dtype = dtype;
      c.heads_q = 4;
      c.heads_kv = 2;
      c.queries = {40, 40};  // some rows see nothing
      c.keys = {keys, keys};
      c.packed_q = false;
      c.form = KeyForm::dense;
      c.causal = c.sinks = true;
      RaggedData data(c);
      data.run(here());
      EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
      if (keys >= 40) continue;
      for (std::int64_t h = 0; h < 4; ++h) {
        EXPECT_EQ(data.lse_of(1)[static_cast<std::size_t>(h)],
                  data.sinks[static_cast<std::size_t>(h)]);
      }
      EXPECT_EQ(data.out_of(1)[0], 0.0f);
    }
  }
}

TEST_P(SmallRagged, SinksFarFromTheScores) {
  for (const float sink : {-kInfinity, -1e4f, 1e4f}) {
    RaggedCase c;
    c.queries = {3, 40};
    c.keys = {50, 60};
    c.sinks = true;
    RaggedData data(c);
    std::fill(data.sinks.begin(), data.sinks.end(), sink);
    data.run(here());
    EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
    if (sink > 0) {
      EXPECT_EQ(data.lse_of(0)[0], sink);
    }
  }
}

TEST_P(SmallRagged, SinksOfEveryForm) {
  for (const KeyForm form : kForms) {
    RaggedCase c;
    c.dtype = DType::bf16;
    c.heads_q = 4;
    c.queries = {1, 0, 37, 2};
    c.keys = {60, 4, 0, 50};
    c.form = form;
    c.sinks = true;
    check(c);
  }
}

TEST_P(SmallRagged, ManyTinySequences) {
  RaggedCase c;
  c.queries.clear();
  c.keys.clear();
  for (std::int64_t b = 0; b < 150; ++b) {
    c.queries.push_back(b % 3);
    c.keys.push_back(b % 5);
  }
  c.dim = 32;
  for (const KeyForm form : kForms) {
    c.form = form;
    check(c);
  }
}

TEST_P(SmallRagged, RerunsAreBitEqual) {
  RaggedCase c;
  c.heads_q = 4;
  c.queries = {3, 1, 40};
  c.keys = {80, 130, 41};
  c.form = KeyForm::paged;
  RaggedData data(c);
  data.run(here());
  const auto out = data.out.bytes();
  const std::vector<float> lse = data.lse;
  for (int i = 0; i < 3; ++i) {
    data.run(here());
    ASSERT_EQ(data.out.bytes(), out);
    ASSERT_EQ(data.lse, lse);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmallRagged);
INSTANTIATE_TEST_SUITE_P(Target, SmallRagged, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace hipflash::testing
