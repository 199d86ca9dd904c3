// Ragged calls taken apart, and sinks: the reference against values computed by hand.
#include "verify/sequences.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "verify/reference.h"

namespace hipflash::verify {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// One head of dimension 1; queries are 0, so every key that is seen weighs the same.
struct Means {
  Means(std::int64_t rows_q, std::vector<float> values)
      : q(static_cast<std::size_t>(rows_q), 0.0f), k(values.size(), 0.0f), v(std::move(values)) {
    p.dtype = DType::f32;
    p.batch = p.heads_q = p.heads_kv = p.head_dim = p.value_head_dim = 1;
    p.seq_q = rows_q;
    p.seq_k = static_cast<std::int64_t>(v.size());
    p.set_dense_bshd();
    t.q = q.data();
    t.k = k.data();
    t.v = v.data();
  }
  Reference run() const { return attention_f64(p, t); }

  std::vector<float> q, k, v;
  Problem p;
  TensorPointers t;
};

TEST(Sequences, PackedOnesSeeTheirOwnKeys) {
  Means means(4, {1, 2, 3, 10, 20});
  means.p.batch = 3;
  means.p.features.varlen = true;
  means.p.ragged.packed_q = means.p.ragged.packed_k = means.p.ragged.offsets_are_64bit = true;
  means.p.ragged.total_q = 4;
  means.p.ragged.total_k = 5;
  means.p.causal = true;
  const std::vector<std::int64_t> cu_q{0, 3, 3, 4}, cu_k{0, 2, 3, 5};
  means.t.cu_seqlens_q = cu_q.data();
  means.t.cu_seqlens_k = cu_k.data();
  // Three queries over two keys: the first sees none. The last sequence: one query over two keys.
  const Reference result = means.run();
  EXPECT_EQ(result.out, (std::vector<double>{0, 1, 1.5, 15}));
  EXPECT_EQ(result.lse, (std::vector<double>{-kInf, 0, std::log(2.0), std::log(2.0)}));
  EXPECT_EQ(dense_calls(means.p), 3);
}

TEST(Sequences, CacheWithLengthsSlotsAndPadding) {
  Means means(2, {1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400});
  Problem& p = means.p;
  p.batch = 2;
  p.seq_q = 1;
  p.seq_k = 4;
  p.set_dense_bshd();
  p.features.kv_cache = true;
  p.ragged.lengths = p.ragged.batch_index = p.ragged.left_padding = true;
  p.ragged.kv_slots = 3;
  std::vector<std::int32_t> lengths{3, 0}, slots{2, 0}, padding{1, 0};
  means.t.kv_lengths = lengths.data();
  means.t.kv_batch_index = slots.data();
  means.t.kv_left_padding = padding.data();
  EXPECT_EQ(means.run().out, (std::vector<double>{250, 0}));
  EXPECT_EQ(means.run().lse, (std::vector<double>{std::log(2.0), -kInf}));

  lengths[1] = 5;  // beyond the capacity
  EXPECT_EQ(means.run().out[0], 250);
  EXPECT_TRUE(std::isnan(means.run().out[1]) && std::isnan(means.run().lse[1]));
  lengths[1] = 4;
  slots[1] = 3;  // no such slot
  EXPECT_TRUE(std::isnan(means.run().out[1]));
  slots[1] = 1;
  padding[1] = 5;  // more padding than positions
  EXPECT_TRUE(std::isnan(means.run().out[1]));
  padding[1] = 3;
  EXPECT_EQ(means.run().out[1], 40);
}

TEST(Sequences, PagesAreGathered) {
  Means means(1, {1, 2, 10, 20, 100, 200});
  Problem& p = means.p;
  p.features.paged_kv = p.features.kv_cache = p.ragged.lengths = true;
  p.ragged.page_size = 2;
  p.ragged.pages = 3;
  p.ragged.pages_per_sequence = 2;
  p.ragged.block_table_stride = 2;
  p.ragged.kv_slots = 1;
  p.seq_k = 4;
  p.k = p.v = {2, 1, 1};
  std::vector<std::int32_t> table{2, 0}, lengths{3};
  means.t.block_table = table.data();
  means.t.kv_lengths = lengths.data();
  EXPECT_NEAR(means.run().out[0], 301.0 / 3, 1e-12);
  table[1] = 3;
  EXPECT_TRUE(std::isnan(means.run().out[0]));
  lengths[0] = 2;  // the wrong entry is not used
  EXPECT_EQ(means.run().out[0], 150);
}

TEST(Sequences, ASinkJoinsTheDenominator) {
  Means means(2, {6, 9});
  means.p.causal = true;
  means.p.alignment = MaskAlignment::top_left;
  means.p.features.sinks = true;
  const float sink = std::log(2.0f);
  means.t.sinks = &sink;
  const Reference result = means.run();  // weights 1 / (1 + 2) and 1 / (2 + 2)
  EXPECT_NEAR(result.out[0], 2.0, 1e-6);
  EXPECT_NEAR(result.out[1], 15.0 / 4, 1e-6);
  EXPECT_NEAR(result.lse[0], std::log(3.0), 1e-6);
  EXPECT_NEAR(result.lse[1], std::log(4.0), 1e-6);
  means.p.seq_k = 0;
  EXPECT_EQ(means.run().out, (std::vector<double>{0, 0}));
  EXPECT_EQ(means.run().lse[0], static_cast<double>(sink));
}

TEST(Sequences, ComparedInTheTensorsOwnLayout) {
  Means means(3, {1, 2, 3});
  means.p.batch = 2;
  means.p.features.varlen = means.p.features.lse = true;
  means.p.ragged.packed_q = means.p.ragged.packed_k = true;
  means.p.ragged.total_q = means.p.ragged.total_k = 3;
  means.p.out = {0, 2, 1};
  means.p.lse = {0, 1, 3};
  const std::vector<std::int32_t> cu{0, 1, 3};
  means.t.cu_seqlens_q = means.t.cu_seqlens_k = cu.data();
  std::vector<float> out{1, -7, 2.5, -7, 2.5, -7}, lse{0, std::log(2.0f), std::log(2.0f)};
  means.t.out = out.data();
  means.t.lse = lse.data();
  EXPECT_TRUE(check(means.p, means.t).ok()) << check(means.p, means.t).text();
  out[4] = 2.0f;
  EXPECT_NE(check(means.p, means.t).text().find("out[batch 1, query 1, head 0, dim 0]"),
            std::string::npos)
      << check(means.p, means.t).text();
  out[4] = 2.5f;
  lse[2] = 1.0f;
  EXPECT_NE(check(means.p, means.t).text().find("lse[batch 1, head 0, query 1]"),
            std::string::npos);
}

}  // namespace
}  // namespace hipflash::verify
