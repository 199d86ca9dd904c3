// General kernels of GPU families: one for each type, head dimensions, alignment and way to lie.
#include <gtest/gtest.h>

#include "api/planning.h"
#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"

namespace hipflash::plan {
namespace {

constexpr const char* kArchs[] = {"gfx906",  "gfx908",  "gfx90a",  "gfx942", "gfx950",
                                  "gfx1030", "gfx1100", "gfx1201", "sm_80",  "sm_90a"};

Problem problem(DType dtype, std::int64_t seq_q, std::int64_t seq_k) {
  return dense_problem({dtype, 2, 8, 2, seq_q, seq_k, 64, false});
}

KernelPlan general(const Problem& p, const char* arch, int compute_units = 304) {
  platform::DeviceFacts facts = facts_of_architecture(arch);
  facts.compute_units = compute_units;
  return plan_gpu(p, facts, nullptr, Kernel::general);
}

TEST(GeneralGpuPlan, OneKernelServesFeaturesSizesAndDevices) {
  for (const char* const arch : kArchs) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      SCOPED_TRACE(::testing::Message() << arch << " " << to_string(dtype));
      const jit::Spec one = general(problem(dtype, 512, 512), arch).spec;
      Problem single = problem(dtype, 1, 70000);  // splits its keys, packs heads, few rows
      EXPECT_EQ(general(single, arch).spec, one);
      Problem tiny = problem(dtype, 1, 4);
      EXPECT_EQ(general(tiny, arch, 8).spec, one);
      Problem all = problem(dtype, 300, 500);
      all.causal = true;
      all.window = {5, -1};
      all.softcap = 3.0f;
      all.features.lse = all.features.alibi = all.features.bias = all.features.mask = true;
      all.features.sinks = true;
      EXPECT_EQ(general(all, arch).spec, one);
      Problem packed = problem(dtype, 300, 500);
      packed.features.varlen = packed.ragged.packed_q = packed.ragged.packed_k = true;
      packed.ragged.total_q = 600;
      packed.ragged.total_k = 1000;
      EXPECT_EQ(general(packed, arch).spec, one);
    }
  }
}

TEST(GeneralGpuPlan, PagesAlignmentAndHeadDimensionsAreOthers) {
  for (const char* const arch : kArchs) {
    const jit::Spec one = general(problem(DType::f16, 64, 64), arch).spec;
    Problem paged = problem(DType::f16, 64, 64);
    paged.features.paged_kv = true;
    paged.ragged = {};
    paged.ragged.page_size = 16;
    EXPECT_NE(general(paged, arch).spec, one);
    Problem unaligned = problem(DType::f16, 64, 64);
    unaligned.aligned = false;
    EXPECT_NE(general(unaligned, arch).spec, one);
    Problem wide = problem(DType::f16, 64, 64);
    wide.head_dim = 128;
    EXPECT_NE(general(wide, arch).spec, one);
  }
}

TEST(GeneralGpuPlan, PacksMakeWhatPlansAskFor) {
  for (const char* const arch : kArchs) {
    const std::vector<jit::Spec> made =
        api::general_gpu_specs(problem(DType::bf16, 2048, 2048), arch);
    ASSERT_EQ(made.size(), 2u);
    EXPECT_EQ(made[0], general(problem(DType::bf16, 1, 1000), arch).spec);
    Problem paged = problem(DType::bf16, 1, 4096);
    paged.features.paged_kv = paged.features.kv_cache = paged.ragged.lengths = true;
    paged.ragged.page_size = 16;
    paged.ragged.pages = 1024;
    paged.ragged.pages_per_sequence = 256;
    EXPECT_EQ(made[1], general(paged, arch).spec);
  }
}

TEST(GeneralGpuPlan, BatchInvariantCallsKeepTheirKernel) {
  Problem p = problem(DType::f16, 64, 64);
  EXPECT_TRUE(general_may_serve(p));
  p.batch_invariant = true;
  EXPECT_FALSE(general_may_serve(p));
  EXPECT_TRUE(api::general_gpu_specs(p, "gfx942").empty());
}

}  // namespace
}  // namespace hipflash::plan
