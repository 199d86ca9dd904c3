// Ragged calls of sizes that matter: long caches split over keys, chunks of queries against a long
// cache, and tables and pools beyond 16-bit and 32-bit numbers.
#include <gtest/gtest.h>

#include <array>
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
  // The bf16 form of AVX-512 tells something new of bf16 only, and the portable form is slow: it
  // takes a third of the cases, drawn at random.
  bool skipped(DType dtype) {
    if (GetParam() == "avx512_bf16") return dtype != DType::bf16;
    return GetParam() == "portable" && thirds_() % 3 != 0;
  }
  void check(const RaggedCase& c) {
    if (!skipped(c.dtype)) expect_right(c, GetParam());
  }
  void paged_equals_dense(RaggedCase c, const std::vector<std::int64_t>& page_sizes);

 private:
  std::mt19937 thirds_;
};

TEST_P(FullRagged, RandomCalls) {
  constexpr std::int64_t kDims[] = {64, 128, 256, 40};
  constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
  constexpr KeyForm kForms[] = {KeyForm::packed, KeyForm::cache, KeyForm::paged};
  // Types meet forms and head dimensions in turn; all else is drawn, so that no choice goes with
  // another one.
  std::mt19937_64 random(17);
  const auto one_of = [&](std::uint64_t count) { return random() % count == 0; };
  for (std::uint64_t turn = 0; turn < 36; ++turn) {
    RaggedCase c;
    c.seed = turn;
    c.dtype = kDtypes[turn % 3];
    c.form = kForms[turn / 3 % 3];
    c.dim = kDims[turn / 9 % 4];
    c.heads_q = 6;
    c.heads_kv = std::array{6, 2, 1}[random() % 3];
    c.page_size = std::int64_t{1} << random() % 7;
    c.queries.clear();
    c.keys.clear();
    const std::uint64_t batch = 2 + random() % 5;
    for (std::uint64_t b = 0; b < batch; ++b) {
      c.queries.push_back(one_of(8) ? 0 : static_cast<std::int64_t>(random() % 300));
      c.keys.push_back(one_of(8) ? 0 : static_cast<std::int64_t>(random() % 500));
    }
    c.causal = one_of(2);
    if (one_of(3))
      c.window = {std::array{-1, 0, 60}[random() % 3], std::array{-1, 9}[random() % 2]};
    if (one_of(3)) c.alignment = MaskAlignment::top_left;
    c.sinks = one_of(3);
    c.hints = !one_of(4);
    c.left_padding = c.form != KeyForm::packed && one_of(2);
    c.batch_index = c.form != KeyForm::packed && one_of(2);
    c.spare_slots = c.batch_index ? 2 : 0;
    check(c);
  }
}

// Prompts: sequences of many tiles of rows, of a few rows and of none, with others' NaN around
// them.
TEST_P(FullRagged, PackedSequencesOfManyRows) {
  for (const std::int64_t dim : {40, 64, 96, 128, 256}) {
    for (const bool causal : {false, true}) {
      RaggedCase c;
      c.dtype = causal ? DType::f16 : DType::bf16;
      c.dim = dim;
      c.value_dim = dim == 96 ? 64 : 0;
      c.queries = {130, 1, 0, 200, 65};
      c.keys = {140, 77, 20, 207, 0};
      c.gap = 3;
      c.causal = causal;
      c.sinks = dim == 64;
      c.alibi = causal && dim <= 128;
      c.softcap = dim == 96 ? 5.0f : 0.0f;
      c.hints = dim != 128;
      c.offsets_are_64bit = dim == 256;
      check(c);
      c.alignment = MaskAlignment::top_left;
      if (causal && dim == 128) check(c);
    }
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

// Where a page ends changes nothing, also where keys are split: in the same tile config and as many
// parts a paged cache gives the bits of a dense one.
void FullRagged::paged_equals_dense(RaggedCase c, const std::vector<std::int64_t>& page_sizes) {
  c.packed_q = false;
  c.causal = true;
  for (const bool batch_invariant : {false, true}) {
    c.batch_invariant = batch_invariant;
    c.form = KeyForm::cache;
    SCOPED_TRACE(::testing::Message() << c);
    RaggedData dense(c);
    dense.run(here());
    const verify::Verdict verdict = dense.verdict();
    EXPECT_TRUE(verdict.ok()) << verdict.text();
    const Explanation as_dense = here().context().plan(dense.problem()).explanation();
    if (c.queries[0] == 1 && !batch_invariant) {
      EXPECT_GT(as_dense.splits, 1) << as_dense.text();
    }
    c.form = KeyForm::paged;
    for (const std::int64_t page_size : page_sizes) {
      c.page_size = page_size;
      RaggedData paged(c);
      const Explanation as_paged = here().context().plan(paged.problem()).explanation();
      const bool same = as_paged.family == as_dense.family && as_paged.config == as_dense.config &&
                        as_paged.splits == as_dense.splits;
      if (!same) {  // then a sum may be in another order
        EXPECT_FALSE(here().is_cpu() || batch_invariant) << as_paged.text() << as_dense.text();
        continue;
      }
      paged.run(here());
      for (std::int64_t b = 0; b < c.batch(); ++b) {
        EXPECT_EQ(paged.out_of(b), dense.out_of(b)) << page_size << " of " << b;
        EXPECT_EQ(paged.lse_of(b), dense.lse_of(b)) << page_size << " of " << b;
      }
    }
  }
}

TEST_P(FullRagged, LongPagedCachesEqualDenseOnes) {
  // On the CPU every kernel costs a compile; these are those of other tests.
  const std::vector<std::int64_t> dims =
      here().is_cpu() ? std::vector<std::int64_t>{128} : std::vector<std::int64_t>{64, 128};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    if (skipped(dtype)) continue;
    for (const std::int64_t dim : dims) {
      for (const std::int64_t queries : {1, 20}) {
        RaggedCase c;
        c.dtype = dtype;
        c.heads_q = 8;
        c.dim = dim;
        c.queries = {queries, queries};
        c.keys = {2503, 70};
        c.capacity = 2560;  // whole pages of both sizes
        paged_equals_dense(c, {1, 256});
      }
    }
  }
}

// Small enough for an emulated device.
using SmallRaggedPages = FullRagged;
TEST_P(SmallRaggedPages, SplitCachesEqualDenseOnes) {
  if (here().is_cpu()) GTEST_SKIP() << "as in FullRagged";
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    RaggedCase c;
    c.dtype = dtype;
    c.queries = {1, 1};
    c.keys = {700, 70};
    c.capacity = 704;
    paged_equals_dense(c, {16});
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

// More rows than a decoding tile, few enough to have their keys split: steps must divide the parts.
TEST_P(FullRagged, BatchInvariantCallsSeeEveryKey) {
  RaggedCase c;
  c.heads_kv = c.heads_q;
  c.queries = {48};
  c.keys = {2048};
  c.packed_q = false;
  c.form = KeyForm::dense;
  c.batch_invariant = true;
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const std::int64_t dim : {40, 72, 96, 112, 128, 160}) {
      c.dtype = dtype;
      c.dim = dim;
      if (skipped(c.dtype)) continue;
      RaggedData data(c);
      data.run(here());
      EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
    }
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

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmallRaggedPages);
INSTANTIATE_TEST_SUITE_P(Target, SmallRaggedPages, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullRagged);
INSTANTIATE_TEST_SUITE_P(Target, FullRagged, ::testing::ValuesIn(target_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace hipflash::testing
