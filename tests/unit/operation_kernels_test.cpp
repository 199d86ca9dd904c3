// Operations beside attention in workloads: what is recorded names the kernel that ran.
#include "api/operation_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hipflash/error.h"
#include "plan/gpu_plan.h"
#include "platform/cpu/isa.h"

namespace hipflash::api {
namespace {

plan::AppendProblem append_problem(int rotary_dim) {
  plan::AppendProblem problem;
  problem.dtype = DType::f16;
  problem.aligned = 1;
  problem.args.batch = 3;
  problem.args.rows = 5;
  problem.args.heads_kv = 2;
  problem.args.head_dim = 128;
  problem.args.value_head_dim = 64;
  problem.args.rotary_dim = rotary_dim;
  problem.args.table_type = rotary_dim > 0 ? ElementType::f16 : ElementType::f32;
  return problem;
}

TEST(OperationKernels, ARecordedAppendIsTheKernelThatRan) {
  for (const char* const arch : {"gfx942", "gfx1100", "sm_90a"}) {
    for (const int rotary_dim : {0, 64}) {
      const plan::AppendProblem problem = append_problem(rotary_dim);
      const jit::Spec ran = plan::plan_append(problem, plan::facts_of_architecture(arch)).spec;
      const WorkloadItem item{arch, 4, {}, kernel_of(problem)};
      const WorkloadItem read = workload_item_from_json(to_json_line(item));
      EXPECT_EQ(read, item);
      EXPECT_EQ(operation_spec(read.operation, arch), ran);
    }
  }
}

TEST(OperationKernels, ARecordedMergeIsTheKernelThatRan) {
  plan::MergeProblem problem;
  problem.dtype = DType::bf16;
  problem.part_dtype = DType::f32;
  problem.args.dim = 96;
  for (const int aligned : {0, 1}) {
    problem.aligned = aligned;
    const jit::Spec ran = plan::plan_merge(problem, plan::facts_of_architecture("gfx90a")).spec;
    EXPECT_EQ(operation_spec(kernel_of(problem), "gfx90a"), ran);
  }
}

TEST(OperationKernels, OnCpusTheInstructionSetIsThatOfTheArchitecture) {
  const std::string arch = platform::arch_of(CpuIsa::portable);
  const jit::Spec spec = operation_spec(kernel_of(append_problem(0)), arch);
  EXPECT_EQ(spec.arch, arch);
  EXPECT_EQ(spec.compiler, jit::CompilerKind::host);
}

TEST(OperationKernels, WhatCannotBeIsRefusedByName) {
  const auto refusal = [](const std::string& operation) -> std::string {
    try {
      workload_item_from_json("{\"operation\":" + operation + "}");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(refusal(R"({"name":"append_kv","dtype":"f16","head_dim":64})"), "");
  EXPECT_THAT(refusal(R"({"name":"erase","head_dim":64})"), testing::HasSubstr("name"));
  EXPECT_THAT(refusal(R"({"name":"append_kv","head_dim":0})"), testing::HasSubstr("head_dim"));
  EXPECT_THAT(refusal(R"({"name":"append_kv","head_dim":600})"), testing::HasSubstr("head_dim"));
  EXPECT_THAT(refusal(R"({"name":"append_kv","head_dim":64,"dtype":"f64"})"),
              testing::HasSubstr("dtype"));
  EXPECT_THAT(refusal(R"({"name":"append_kv","head_dim":64,"rotary_dim":65})"),
              testing::HasSubstr("rotary_dim"));
  EXPECT_THAT(refusal(R"({"name":"append_kv","head_dim":64,"speed":1})"),
              testing::HasSubstr("speed"));
  EXPECT_THAT(refusal("[]"), testing::HasSubstr("object"));
  EXPECT_THROW(workload_item_from_json("{\"arch\":\"gfx942\"}"), Error);
  EXPECT_THROW(
      workload_item_from_json(R"({"problem":{},"operation":{"name":"append_kv","head_dim":64}})"),
      Error);
}

}  // namespace
}  // namespace hipflash::api
