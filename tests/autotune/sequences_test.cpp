// Ragged problems as the tuner measures them: layouts and tables that calls would be let through
// with, and configs that are found right on them.
#include "autotune/sequences.h"

#include <gtest/gtest.h>

#include "api/check.h"
#include "api/context_impl.h"
#include "autotune/measure.h"
#include "autotune/search_space.h"
#include "plan/cpu_plan.h"
#include "plan/dense_problem.h"
#include "platform/cpu/cpu_device.h"

namespace hipflash::autotune {
namespace {

Problem base() {
  Problem p = plan::dense_problem({DType::f32, 3, 4, 2, 5, 70, 32, true});
  p.features.lse = true;
  return p;
}

std::vector<Problem> ragged_problems() {
  Problem packed = base();
  packed.features.varlen = packed.ragged.packed_q = packed.ragged.packed_k = true;
  Problem wide = packed;
  wide.ragged.offsets_are_64bit = true;
  Problem cache = base();
  cache.seq_q = 1;
  cache.features.kv_cache = cache.ragged.lengths = cache.ragged.batch_index = true;
  cache.ragged.left_padding = true;
  Problem paged = cache;
  paged.features.paged_kv = true;
  paged.ragged.page_size = 16;
  Problem prompt = paged;
  prompt.seq_q = 5;
  prompt.features.varlen = prompt.ragged.packed_q = true;
  return {packed, wide, cache, paged, prompt};
}

void check(const Problem& problem) {
  api::check_problem(problem);
  SequenceTables tables(problem);
  TensorPointers host;
  if (problem.ragged.offsets_are_64bit) {
    host.cu_seqlens_q = tables.long_offsets_q.data();
    host.cu_seqlens_k = tables.long_offsets_k.data();
  } else {
    host.cu_seqlens_q = tables.offsets_q.data();
    host.cu_seqlens_k = tables.offsets_k.data();
  }
  host.kv_lengths = tables.lengths.data();
  host.kv_batch_index = tables.slots.data();
  host.kv_left_padding = tables.padding.data();
  host.block_table = tables.pages.data();
  api::check_sequences(problem, host);
}

TEST(TunedSequences, LayoutsAndTablesAreThoseOfACall) {
  for (Problem problem : ragged_problems()) {
    ASSERT_TRUE(make_measurable(problem));
    check(problem);
    Problem again = problem;
    ASSERT_TRUE(make_measurable(again));
    EXPECT_EQ(again, problem);
  }
  for (const platform::Kind kind : {platform::Kind::cpu, platform::Kind::hip}) {
    bool packed = false, paged = false;
    for (Problem problem : common_problems(kind, true)) {
      ASSERT_TRUE(make_measurable(problem));
      if (!problem.features.ragged()) continue;
      check(problem);
      packed = packed || problem.ragged.packed_q;
      paged = paged || problem.features.paged_kv;
    }
    EXPECT_TRUE(packed && paged);
  }
}

TEST(TunedSequences, PagesOfLargeCachesAreShared) {
  Problem problem = ragged_problems()[3];
  problem.batch = 4096;
  problem.heads_q = problem.heads_kv = 32;
  problem.seq_k = 131072;
  problem.head_dim = problem.value_head_dim = 128;
  ASSERT_TRUE(make_measurable(problem));
  EXPECT_LE(problem.ragged.pages * problem.k.batch, std::int64_t{1} << 28);
  EXPECT_GT(problem.ragged.pages, 0);
}

TEST(TunedSequences, ConfigsAreFoundRight) {
  Measurer measurer({}, {});
  for (Problem problem : ragged_problems()) {
    ASSERT_TRUE(make_measurable(problem));
    const plan::KernelPlan plan = plan::plan_cpu(
        problem, static_cast<const platform::CpuDevice&>(*api::open_device({}, {})).isa(), 2);
    measurer.load(problem);
    const Trial trial = measurer.try_tile(plan.tile.numbers);
    EXPECT_EQ(trial.fault, "");
    EXPECT_GE(trial.id, 0);
  }
}

TEST(TunedSequences, BatchInvariantCallsAreNotMeasured) {
  Problem problem = base();
  problem.batch_invariant = true;
  EXPECT_FALSE(make_measurable(problem));
}

}  // namespace
}  // namespace hipflash::autotune
