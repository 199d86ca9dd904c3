// Planning is a pure function of the Problem and the device's facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/cpu_plan.h"
#include "plan/dense_problem.h"
#include "plan/kernel_facts.h"
#include "plan/mask_bounds.h"

namespace hipflash::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Problem problem(std::int64_t seq_q, std::int64_t seq_k) {
  return dense_problem({DType::f32, 1, 4, 4, seq_q, seq_k, 64, false});
}

// Whether query i sees key j by the definition in problem.h.
bool sees(const Problem& p, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i + (p.alignment == MaskAlignment::bottom_right ? p.seq_k - p.seq_q : 0);
  if (p.causal && j > at) return false;
  if (p.window.left >= 0 && j < at - p.window.left) return false;
  return p.window.right < 0 || j <= at + p.window.right;
}

TEST(MaskBounds, EqualTheDefinitionForEverySmallMask) {
  for (std::int64_t seq_q = 1; seq_q <= 5; ++seq_q) {
    for (std::int64_t seq_k = 0; seq_k <= 5; ++seq_k) {
      for (std::int64_t left = -1; left <= 6; ++left) {
        for (std::int64_t right = -1; right <= 6; ++right) {
          for (int flags = 0; flags < 4; ++flags) {
            Problem p = problem(seq_q, seq_k);
            p.causal = flags & 1;
            p.alignment = flags & 2 ? MaskAlignment::top_left : MaskAlignment::bottom_right;
            p.window = {left, right};
            const MaskBounds bounds = mask_bounds(p);
            bool hides = false;
            for (std::int64_t i = 0; i < seq_q; ++i) {
              for (std::int64_t j = 0; j < seq_k; ++j) {
                const bool inside = (!bounds.has_left || j >= i + bounds.diagonal - bounds.left) &&
                                    (!bounds.has_right || j <= i + bounds.diagonal + bounds.right);
                ASSERT_EQ(inside, sees(p, i, j));
                hides = hides || !inside;
              }
            }
            // A side is only bounded if it hides something: equal masks take equal kernels.
            if (seq_k > 0) {
              ASSERT_EQ(hides, bounds.has_left || bounds.has_right)
                  << seq_q << "x" << seq_k << " (" << left << "," << right << ") " << flags;
            }
          }
        }
      }
    }
  }
}

TEST(MaskBounds, HugeWindowsDoNotOverflow) {
  Problem p = problem(8, 8);
  p.window = {INT64_MAX, INT64_MAX};
  const MaskBounds bounds = mask_bounds(p);
  EXPECT_FALSE(bounds.has_left);
  EXPECT_FALSE(bounds.has_right);
  EXPECT_EQ(bounds.left, kUnbounded);
}

TEST(KernelFacts, AreOneConstantPerLine) {
  Problem p = problem(64, 64);
  p.causal = true;
  const std::string text = spec_members(facts_of(p, mask_bounds(p)), {{"tile_keys", 256}});
  for (const char* line :
       {"ElementType element = ElementType::f32;", "int head_dim = 64;",
        "bool window_right = true;", "bool window_left = false;", "int tile_keys = 256;"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(CpuPlan, OneQueryNeedsNoCausalMask) {
  Problem p = problem(1, 500);
  p.causal = true;
  EXPECT_THAT(plan_cpu(p, CpuIsa::avx2, 2).spec.facts, HasSubstr("window_right = false"));
}

TEST(CpuPlan, KernelsDoNotDependOnLengths) {
  EXPECT_EQ(plan_cpu(problem(512, 512), CpuIsa::avx512, 2).spec,
            plan_cpu(problem(777, 1234), CpuIsa::avx512, 2).spec);
}

TEST(CpuPlan, KernelsHaveTheWaysThatTheirCallsCanTake) {
  const auto facts = [](std::int64_t seq_q, std::int64_t seq_k, bool invariant = false) {
    Problem p = problem(seq_q, seq_k);
    p.batch_invariant = invariant;
    return plan_cpu(p, CpuIsa::avx2, 2).spec.facts;
  };
  EXPECT_THAT(facts(1, 500), AllOf(HasSubstr("chunk_rows = 1;"), HasSubstr("few_keys = 0;")));
  EXPECT_EQ(facts(1, 500), facts(1, 9));
  EXPECT_THAT(facts(1, 8), AllOf(HasSubstr("chunk_rows = 1;"), HasSubstr("few_keys = 8;")));
  EXPECT_THAT(facts(4, 500), HasSubstr("chunk_rows = 4;"));
  EXPECT_THAT(facts(5, 8), AllOf(HasSubstr("chunk_rows = 5;"), HasSubstr("few_keys = 0;")));
  EXPECT_THAT(facts(1, 8, true), AllOf(HasSubstr("chunk_rows = 0;"), HasSubstr("few_keys = 0;")));
}

TEST(CpuPlan, Bf16InstructionsServeBf16Only) {
  Problem p = problem(64, 64);
  EXPECT_EQ(plan_cpu(p, CpuIsa::avx512_bf16, 2).spec.arch, "cpu-avx512");
  p.dtype = DType::bf16;
  EXPECT_EQ(plan_cpu(p, CpuIsa::avx512_bf16, 2).spec.arch, "cpu-avx512_bf16");
}

TEST(CpuPlan, SplitsKeysOnlyWhenThreadsWouldIdle) {
  Problem p = problem(1, 100000);
  p.heads_q = p.heads_kv = 1;
  p.set_dense_bshd();
  const KernelPlan few = plan_cpu(p, CpuIsa::avx512, 8);
  const auto& launch = std::get<platform::CpuLaunch>(few.launch);
  EXPECT_GT(few.args.splits, 1);
  EXPECT_GT(launch.partial_bytes, 0u);
  EXPECT_GT(launch.work.merge_items, 0);
  EXPECT_EQ(plan_cpu(problem(4096, 4096), CpuIsa::avx512, 8).args.splits, 1);
}

TEST(CpuPlan, ScratchStaysUnderFourMegabytesPerThread) {
  for (const CpuIsa isa : {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_bf16}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t dim : {64, 128, 512}) {
        for (const std::int64_t seq : {64, 16384, 1000000}) {
          Problem p = problem(seq, seq);
          p.dtype = dtype;
          p.heads_q = 32;
          p.head_dim = p.value_head_dim = dim;
          const KernelPlan plan = plan_cpu(p, isa, 2);
          EXPECT_LT(std::get<platform::CpuLaunch>(plan.launch).work.scratch_bytes, 4 << 20)
              << dim << " " << seq;
        }
      }
    }
  }
}

TEST(CpuPlan, GeneralKernelIsOnePerDtype) {
  Problem a = problem(64, 64), b = problem(3, 9);
  b.head_dim = 59;
  b.causal = true;
  b.features.mask = true;
  EXPECT_EQ(plan_cpu(a, CpuIsa::avx2, 2, Kernel::general).spec,
            plan_cpu(b, CpuIsa::avx2, 2, Kernel::general).spec);
}

}  // namespace
}  // namespace hipflash::plan
