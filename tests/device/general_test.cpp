// General kernels on a GPU: one for many problems, without a compiler and while one is at work.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "device/on_device.h"
#include "jit/code_provider.h"
#include "numerics/ragged_case.h"
#include "plan/gpu_plan.h"

namespace hipflash::testing {
namespace {

// A cache with general kernels, and a context that may not compile.
class SmallGeneral : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    std::string pattern = (std::filesystem::temp_directory_path() / "hipflash-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    options_.cache_dir = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    if (!options_.cache_dir.empty()) std::filesystem::remove_all(options_.cache_dir, ignored);
  }

  void make_general(const Problem& like) {
    platform::DeviceFacts facts = plan::facts_of_architecture(context().device().arch);
    jit::ProviderOptions options = jit::provider_options_from_settings();
    options.forget_prebuilt();
    options.cache_dir = options_.cache_dir;
    jit::CodeProvider provider(std::move(options));
    provider.get_async(plan::plan_gpu(like, facts, nullptr, plan::Kernel::general).spec).get();
  }

  // Plans the problem in a context that finds what make_general() made.
  Plan general_plan(Context& ctx, const Problem& problem) {
    const Plan plan = ctx.plan(problem);
    EXPECT_NE(plan.explanation().reason.find("general kernel"), std::string::npos)
        << plan.explanation().text();
    return plan;
  }

  ContextOptions options_;
};

// HIPFLASH_COMPILE=never while it lives.
class NoCompiler {
 public:
  NoCompiler() { ::setenv("HIPFLASH_COMPILE", "never", 1); }
  NoCompiler(const NoCompiler&) = delete;
  ~NoCompiler() { ::unsetenv("HIPFLASH_COMPILE"); }
};

std::vector<AttentionCase> dense_cases(DType dtype) {
  AttentionCase plain;
  plain.dtype = dtype;
  plain.heads_kv = 1;
  plain.seq_q = 40;
  plain.seq_k = 50;
  plain.lse = false;
  AttentionCase masked = plain;
  masked.window = {20, 3};
  masked.softcap = 5.0f;
  masked.alibi = masked.lse = true;
  masked.bias = Cells::shared_heads;
  masked.mask = Cells::one_row;
  AttentionCase decoding = plain;  // its keys are split
  decoding.seq_q = 1;
  decoding.seq_k = 700;
  decoding.lse = true;
  AttentionCase tiny = plain;
  tiny.seq_q = 3;
  tiny.seq_k = 2;
  tiny.causal = true;
  return {plain, masked, decoding, tiny};
}

TEST_F(SmallGeneral, OneKernelServesFeaturesMasksAndSizes) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    const std::vector<AttentionCase> cases = dense_cases(dtype);
    make_general(AttentionData(cases[0]).problem());
    const NoCompiler none;
    Context ctx(test_device(), options_);
    for (const AttentionCase& c : cases) {
      SCOPED_TRACE(::testing::Message() << c);
      AttentionData data(c);
      data.poison();
      DeviceCopies copies;
      const TensorPointers device = upload(copies, data);
      general_plan(ctx, data.problem()).run(device);
      copies.download_all();
      const verify::Verdict verdict = data.verdict();
      EXPECT_TRUE(verdict.ok()) << verdict.text();
      EXPECT_TRUE(data.out.untouched_outside()) << "something outside the output was written";
    }
  }
}

TEST_F(SmallGeneral, OneKernelServesPackedSequencesAndOneServesPages) {
  RaggedCase packed;
  packed.heads_q = 4;
  packed.heads_kv = 2;
  packed.queries = {33, 1, 0, 20};
  packed.keys = {50, 70, 5, 20};
  packed.causal = packed.sinks = true;
  RaggedCase paged = packed;
  paged.form = KeyForm::paged;
  paged.left_padding = true;
  for (const RaggedCase& c : {packed, paged}) make_general(RaggedData(c).problem());
  Target& device = target(target_names().front());  // with a compiler: other tests use it too
  const NoCompiler none;
  Context ctx(test_device(), options_);
  for (const RaggedCase& c : {packed, paged}) {
    SCOPED_TRACE(::testing::Message() << c);
    RaggedData data(c);
    data.poison();
    device.run(general_plan(ctx, data.problem()), data.pointers(), data.blocks());
    const verify::Verdict verdict = data.verdict();
    EXPECT_TRUE(verdict.ok()) << verdict.text();
    EXPECT_TRUE(data.untouched());
  }
}

TEST_F(SmallGeneral, ServesWhileTheSpecializedKernelIsCompiled) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.seq_q = c.seq_k = 33;
  c.causal = true;
  AttentionData data(c);
  make_general(data.problem());
  options_.while_compiling = WhileCompiling::general;
  Context ctx(test_device(), options_);
  const Plan first = general_plan(ctx, data.problem());
  EXPECT_NE(first.tier(), Tier::compiled);
  data.poison();
  DeviceCopies copies;
  first.run(upload(copies, data));
  copies.download_all();
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

}  // namespace
}  // namespace hipflash::testing
