// Ragged calls of sizes that matter: long caches split over keys, chunks of queries against a long
// cache, and tables and pools beyond 16-bit and 32-bit numbers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "numerics/ragged_case.h"
#include "verify/convert.h"

namespace hipflash::testing {
namespace {

class FullRagged : public ::testing::TestWithParam<std::string> {
 protected:
  Target& here() { return target(GetParam()); }
  // The bf16 form of AVX-512 tells something new of bf16 only, and the portable form is slow.
  bool skipped(DType dtype) {
    if (GetParam() == "avx512_bf16") return dtype != DType::bf16;
    return GetParam() == "portable" && turn_++ % 3 != 0;
  }
  void check(const RaggedCase& c) {
    if (!skipped(c.dtype)) expect_right(c, GetParam());
  }

 private:
  int turn_ = 0;
};

TEST_P(FullRagged, RandomCalls) {
  constexpr std::int64_t kDims[] = {64, 128, 256, 40};
  constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
  constexpr KeyForm kForms[] = {KeyForm::packed, KeyForm::cache, KeyForm::paged};
  std::mt19937_64 random(17);
  for (std::uint64_t turn = 0; turn < 36; ++turn) {
    RaggedCase c;
    c.seed = turn;
    c.dtype = kDtypes[turn % 3];
    c.form = kForms[turn / 3 % 3];
    c.dim = kDims[turn / 9 % 4];
    c.heads_q = 6;
    c.heads_kv = turn % 2 ? 2 : turn % 4 ? 6 : 1;
    c.page_size = std::int64_t{1} << random() % 7;
    c.queries.clear();
    c.keys.clear();
    for (std::uint64_t b = 0; b < 2 + turn % 5; ++b) {
      c.queries.push_back(random() % 8 == 0 ? 0 : static_cast<std::int64_t>(random() % 300));
      c.keys.push_back(random() % 8 == 0 ? 0 : static_cast<std::int64_t>(random() % 500));
    }
    c.causal = turn % 3 != 0;
    if (turn % 4 == 1) c.window = {60, -1};
    c.sinks = turn % 6 == 2;
    c.hints = turn % 5 != 0;
    c.left_padding = c.batch_index = c.form != KeyForm::packed && turn % 2 == 0;
    c.spare_slots = c.batch_index ? 2 : 0;
    check(c);
  }
}

TEST_P(FullRagged, LongCachesAreSplitAndMerged) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const std::int64_t queries : {1, 4, 20}) {
      for (const KeyForm form : {KeyForm::cache, KeyForm::paged}) {
        RaggedCase c;
        c.dtype = dtype;
        c.heads_q = 8;
        c.dim = 128;
        c.queries = {queries, queries, queries};
        c.keys = {9001, 0, 170};
        c.packed_q = queries == 4;
        c.form = form;
        c.causal = true;
        c.sinks = queries == 4;
        check(c);
        c.batch_invariant = true;
        check(c);
      }
    }
  }
}

TEST_P(FullRagged, ALongSequenceAloneAndInABatch) {
  for (const std::int64_t queries : {1, 3, 50}) {
    RaggedCase c;
    c.dtype = DType::bf16;
    c.heads_q = 4;
    c.dim = 128;
    c.queries = {queries, 1, 300, queries};
    c.keys = {7000, 5, 400, 3000};
    c.form = KeyForm::paged;
    c.batch_invariant = c.causal = true;
    if (skipped(c.dtype)) continue;
    RaggedData together(c);
    together.run(here());
    EXPECT_TRUE(together.verdict().ok()) << together.verdict().text();
    RaggedCase one = c;
    one.queries.resize(1);
    one.keys.resize(1);
    RaggedData alone(one);
    alone.run(here());
    EXPECT_EQ(alone.out_of(0), together.out_of(0)) << queries;
    EXPECT_EQ(alone.lse_of(0), together.lse_of(0)) << queries;
    // And as a plain call, without any array of lengths.
    one.packed_q = false;
    one.form = KeyForm::dense;
    RaggedData dense(one);
    dense.run(here());
    EXPECT_TRUE(dense.verdict().ok()) << dense.verdict().text();
  }
}

TEST_P(FullRagged, AChunkOfQueriesAgainstALongCache) {
  RaggedCase c;
  c.dtype = DType::bf16;
  c.heads_q = 8;
  c.heads_kv = 2;
  c.dim = 128;
  c.queries = {128, 16, 1};
  c.keys = {3000, 2000, 1000};
  c.form = KeyForm::paged;
  c.page_size = 64;
  c.causal = true;
  check(c);
}

TEST_P(FullRagged, PageNumbersBeyond16Bits) {
  RaggedCase c;
  c.heads_q = c.heads_kv = 1;
  c.dim = 32;
  c.queries = {1, 1};
  c.keys = {30000, 25000};  // a third more pages are in the pool
  c.form = KeyForm::paged;
  c.page_size = 1;
  RaggedData data(c);
  EXPECT_GT(data.k.view().batch, 65536);
  data.run(here());
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

TEST_P(FullRagged, PoolsBeyond4Gigabytes) {
  // 16 pages, the last of which starts beyond 4 GB. Untouched memory costs nothing.
  constexpr std::int64_t kPages = 16, kPageSize = 64, kDim = 64;
  constexpr std::int64_t kStride = (std::int64_t{1} << 27) + 3 * kDim;  // 16 x 256 MB
  const std::size_t bytes = static_cast<std::size_t>(kPages * kStride) * 2;
  const std::unique_ptr<std::uint16_t, void (*)(void*)> pool(
      static_cast<std::uint16_t*>(std::calloc(bytes, 1)), std::free);
  if (!pool) GTEST_SKIP() << "the machine does not give out " << bytes << " bytes";
  RaggedCase c;
  c.heads_q = c.heads_kv = 1;
  c.queries = {2};
  c.keys = {11 * kPageSize - 5};
  c.form = KeyForm::paged;
  c.page_size = kPageSize;
  RaggedData data(c);
  data.run(here());
  const std::vector<float> expected = data.out_of(0);
  // The same call with K in the large pool: page p of the small one is page 15 - p there.
  Tensor k = data.k.view();
  for (std::int64_t page = 0; page < k.batch; ++page) {
    for (std::int64_t row = 0; row < kPageSize; ++row) {
      for (std::int64_t d = 0; d < kDim; ++d) {
        verify::store(c.dtype, pool.get(), (kPages - 1 - page) * kStride + row * kDim + d,
                      static_cast<double>(data.k.get(page, row, 0, d)));
      }
    }
  }
  Tensor v = data.v.view();
  OwnedTensor values(c.dtype, kPages, kPageSize, 1, kDim, Layout::bhsd);
  for (std::int64_t page = 0; page < v.batch; ++page)
    for (std::int64_t row = 0; row < kPageSize; ++row)
      for (std::int64_t d = 0; d < kDim; ++d)
        values.set(kPages - 1 - page, row, 0, d, data.v.get(page, row, 0, d));
  k.data = pool.get();
  k.batch = kPages;
  k.stride = {kStride, kDim, kDim};
  v = values.view();
  for (std::int32_t& entry : data.table) {
    if (entry >= 0) entry = static_cast<std::int32_t>(kPages) - 1 - entry;
  }
  data.out.fill(0.0f);
  const Plan plan =
      here().context().plan(make_problem(data.q.view(), k, v, data.out.view(), data.options));
  std::vector<Block> blocks = data.blocks();
  blocks.push_back({pool.get(), bytes, false});
  blocks.push_back({values.memory().data(), values.memory().size(), false});
  here().run(plan, make_pointers(data.q.view(), k, v, data.out.view(), data.options), blocks);
  EXPECT_EQ(data.out_of(0), expected);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullRagged);
INSTANTIATE_TEST_SUITE_P(Target, FullRagged, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace hipflash::testing
