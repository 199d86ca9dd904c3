// Problem::strict_f32 chooses among kernels of f32, and nothing else.
#include <gtest/gtest.h>

#include "api/planning.h"
#include "hipflash/attention.h"
#include "hipflash/workload.h"
#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"

namespace hipflash {
namespace {

Problem problem_of(DType dtype, bool strict) {
  Problem p = plan::dense_problem({dtype, 2, 8, 8, 1024, 1024, 64, false});
  p.strict_f32 = strict;
  return p;
}

plan::KernelPlan plan_on(const char* arch, const Problem& problem) {
  platform::DeviceFacts facts = plan::facts_of_architecture(arch);
  facts.compute_units = 100;
  return plan::plan_gpu(problem, facts);
}

TEST(StrictF32, TakesMultiplyAddsWhereTheDefaultSplitsProducts) {
  for (const char* arch : {"sm_80", "sm_90", "sm_90a"}) {
    const plan::KernelPlan usual = plan_on(arch, problem_of(DType::f32, false));
    EXPECT_NE(usual.spec.family.find("f16x3"), std::string::npos) << arch;
    EXPECT_NE(usual.reason.find("three products of f16"), std::string::npos) << usual.reason;
    for (const std::int64_t queries : {1, 1024}) {
      Problem problem = problem_of(DType::f32, true);
      problem.seq_q = queries;
      const plan::KernelPlan strict = plan_on(arch, problem);
      EXPECT_EQ(strict.spec.family, "gpu/attention_forward_nvf32.cu") << arch;
      EXPECT_NE(strict.reason.find("multiply-adds (strict_f32)"), std::string::npos);
    }
  }
}

TEST(StrictF32, ChangesNothingElse) {
  for (const char* arch : {"sm_86", "sm_90a", "gfx90a", "gfx942", "gfx1100"}) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      if (dtype == DType::f32 && std::string(arch) == "sm_90a") continue;
      EXPECT_EQ(plan_on(arch, problem_of(dtype, true)).spec,
                plan_on(arch, problem_of(dtype, false)).spec)
          << arch << " " << to_string(dtype);
    }
  }
}

TEST(StrictF32, IsPartOfAProblemOfF32Alone) {
  std::vector<float> data(64);
  AttentionOptions options;
  options.strict_f32 = true;
  const auto made = [&](DType dtype) {
    const Tensor t = Tensor::bshd(data.data(), dtype, 1, 4, 1, 8);
    return make_problem(t, t, t, t, options);
  };
  EXPECT_TRUE(made(DType::f32).strict_f32);
  EXPECT_FALSE(made(DType::f16).strict_f32);
}

TEST(StrictF32, SurvivesWorkloadsAndIsInTheCommandOfPacks) {
  WorkloadItem item{"sm_90a", 132, problem_of(DType::f32, true)};
  EXPECT_TRUE(workload_item_from_json(to_json_line(item)) == item);
  item.problem.strict_f32 = false;
  EXPECT_EQ(to_json_line(item).find("strict_f32"), std::string::npos);
  const Problem strict = problem_of(DType::f32, true);
  EXPECT_NE(api::pack_command(strict, plan_on("sm_90a", strict).spec, 132).find("strict"),
            std::string::npos);
}

}  // namespace
}  // namespace hipflash
