// AttentionOptions::strict_f32: a product counts with all its bits, however small a factor is
// beside others of its row.
#include "device/on_device.h"

namespace hipflash::testing {
namespace {

class StrictF32 : public OnDevice {};

TEST_F(StrictF32, TinyElementsBesideLargeOnesKeepTheirBits) {
  constexpr std::int64_t kSeq = 64, kDim = 64;
  std::vector<float> q(kSeq * kDim), k(q.size()), v(q.size()), out(q.size()), lse(kSeq);
  for (std::int64_t row = 0; row < kSeq; ++row) {
    const auto at = static_cast<std::size_t>(row * kDim);
    q[at] = 1.0f;
    q[at + 1] = std::ldexp(1.2347f, -30);
    k[at + 1] = std::ldexp(1.1f, 30);
  }
  // All keys have the same score.
  const double score = static_cast<double>(1.2347f) * static_cast<double>(1.1f);
  const double expected = score + std::log(static_cast<double>(kSeq));

  DeviceCopies copies;
  const auto tensor = [&](std::vector<float>& data) {
    return Tensor::bshd(copies.upload(data), DType::f32, 1, kSeq, 1, kDim);
  };
  const Tensor dq = tensor(q), dk = tensor(k), dv = tensor(v), dout = tensor(out);
  AttentionOptions options;
  options.scale = 1.0f;
  options.lse.data = copies.upload(lse);
  options.strict_f32 = true;
  const Plan plan = context().plan(make_problem(dq, dk, dv, dout, options));
  SCOPED_TRACE(plan.explanation().text());
  EXPECT_EQ(plan.explanation().family.find("f16x3"), std::string::npos);
  plan.run(make_pointers(dq, dk, dv, dout, options));
  copies.download_all();
  for (const float found : lse) EXPECT_NEAR(static_cast<double>(found), expected, 2e-6);
}

}  // namespace
}  // namespace hipflash::testing
