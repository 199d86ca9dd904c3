// Numbers without the pointer that they belong to: a mistake that would make another call of it.
#include "api/on_stub.h"

namespace hipflash::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSeq = 8, kHeads = 2, kDim = 16;

std::string refused(const AttentionOptions& options) {
  std::vector<float> data(4 * kSeq * kHeads * kDim);
  const Tensor t = Tensor::bshd(data.data(), DType::f32, 2, kSeq, kHeads, kDim);
  try {
    (void)make_problem(t, t, t, t, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return {};
}

TEST(Arguments, NumbersWithoutTheirPointerAreRefused) {
  AttentionOptions options;
  EXPECT_EQ(refused(options), "");
  options.paged.columns = 3;
  EXPECT_THAT(refused(options), HasSubstr("paged.columns = 3 must be 0"));
  options.paged = {};
  options.paged.rows = 2;
  EXPECT_THAT(refused(options), HasSubstr("paged.rows = 2 must be 0"));
  options.paged = {};
  options.varlen.batch = 7;
  EXPECT_THAT(refused(options), HasSubstr("varlen.batch = 7"));
  options.varlen.batch = 2;  // says what q says
  EXPECT_EQ(refused(options), "");
}

class AppendArguments : public OnStub {};

TEST_F(AppendArguments, NumbersWithoutATableAreRefused) {
  const StubMemory memory(1 << 14);
  const auto tensor = [&](std::int64_t seq) {
    return Tensor::bshd(memory.data(), DType::f16, 1, seq, kHeads, kDim);
  };
  AppendOptions options;
  options.paged.columns = 3;
  EXPECT_THAT(
      refusal([&] { append_kv(*ctx, tensor(1), tensor(1), tensor(8), tensor(8), options); }),
      HasSubstr("options.paged.columns = 3 must be 0"));
}

}  // namespace
}  // namespace hipflash::testing
