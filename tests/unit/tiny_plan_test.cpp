// Which Problems the family for a handful of keys takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"
#include "plan/tiny_plan.h"

namespace hipflash::plan {
namespace {

using ::testing::HasSubstr;

Problem tiny(std::int64_t batch, std::int64_t heads, std::int64_t seq_q, std::int64_t seq_k,
             std::int64_t dim) {
  return dense_problem({DType::f16, batch, heads, heads, seq_q, seq_k, dim, false});
}

TEST(TinyPlan, OneLaunchOverAllRowsOnEveryGpu) {
  for (const char* arch : {"gfx906", "gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_80", "sm_90a"}) {
    const KernelPlan plan = plan_gpu(tiny(30720, 16, 1, 2, 128), facts_of_architecture(arch));
    EXPECT_EQ(plan.spec.family, "gpu/attention_tiny.hip") << arch;
    const auto& launch = std::get<platform::GpuLaunch>(plan.launch);
    // 16 lanes a row, two rows for each of the 8 groups of a block.
    EXPECT_EQ(launch.forward.blocks, 30720u * 16 / 8 / (plan.tile.numbers[1].second)) << arch;
    EXPECT_EQ(launch.merge.blocks, 0u);
    EXPECT_EQ(plan.workspace_bytes, 0u);
  }
}

TEST(TinyPlan, SaysWhyAProblemWithFewKeysIsNotTaken) {
  Problem odd = tiny(8, 4, 1, 2, 60);
  Problem unaligned = tiny(8, 4, 1, 2, 64);
  unaligned.aligned = false;
  for (const Problem& p : {odd, unaligned}) {
    const KernelPlan plan = plan_gpu(p, facts_of_architecture("gfx942"));
    EXPECT_NE(plan.spec.family, "gpu/attention_tiny.hip");
    EXPECT_THAT(plan.reason, HasSubstr("not attention_tiny: "));
  }
}

TEST(TinyPlan, ManyQueriesOrKeysAreForTheGeneralFamilies) {
  for (const Problem& p : {tiny(8, 4, 64, 2, 64), tiny(8, 4, 1, 9, 64), tiny(8, 4, 1, 0, 64)}) {
    std::string why_not;
    EXPECT_FALSE(plan_tiny(p, facts_of_architecture("gfx942"), why_not));
    EXPECT_EQ(why_not, "");
  }
  // f32 rows of 512 elements: four pieces a lane for each of 17 rows.
  Problem wide = tiny(8, 4, 1, 8, 512);
  wide.dtype = DType::f32;
  std::string why_not;
  EXPECT_FALSE(plan_tiny(wide, facts_of_architecture("sm_90a"), why_not));
  EXPECT_THAT(why_not, HasSubstr("registers"));
}

TEST(TinyPlan, BoardsTakeOneStepOnNvidia) {
  const KernelPlan plan = plan_gpu(tiny(64, 12, 64, 64, 64), facts_of_architecture("sm_90a"));
  EXPECT_EQ(plan.spec.family, "gpu/attention_board_sm80.cu");
  const auto& launch = std::get<platform::GpuLaunch>(plan.launch);
  EXPECT_EQ(launch.forward.blocks, 64u * 12);
  EXPECT_EQ(launch.forward.threads, 128u);
  EXPECT_EQ(launch.forward.shared_bytes, 3u * 64 * 64 * 2);

  Problem longer = tiny(64, 12, 64, 129, 64), wider = tiny(64, 12, 64, 64, 136),
          biased = tiny(64, 12, 64, 64, 64), few = tiny(64, 12, 4, 64, 64),
          f32 = tiny(64, 12, 64, 64, 64);
  biased.features.bias = true;
  few.heads_kv = 3;
  f32.dtype = DType::f32;
  for (const Problem& p : {longer, wider, biased, few, f32}) {
    EXPECT_NE(plan_gpu(p, facts_of_architecture("sm_90a")).spec.family,
              "gpu/attention_board_sm80.cu");
  }
}

}  // namespace
}  // namespace hipflash::plan
