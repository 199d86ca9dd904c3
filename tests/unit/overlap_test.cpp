// What a call writes may not lie where it reads.
#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "hipflash/attention.h"
#include "refusal.h"

namespace hipflash {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSeq = 6, kHeads = 2, kDim = 8, kCount = kSeq * kHeads * kDim;

class Overlap : public ::testing::Test {
 protected:
  Tensor at(std::int64_t offset, std::int64_t seq = kSeq) {
    return Tensor::bshd(memory_.data() + offset, DType::f32, 1, seq, kHeads, kDim);
  }
  // The sentence of the error; empty: none.
  std::string call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                   const AttentionOptions& options = {}) {
    return refusal([&] { attention_forward(context_, q, k, v, out, options); });
  }

  static Context& shared() {
    static auto* const context = new Context(DeviceId{});
    return *context;
  }
  Context& context_ = shared();
  std::vector<float> memory_ = std::vector<float>(8 * kCount, 0.25f);
};

TEST_F(Overlap, OfDenseTensorsIsRefused) {
  const Tensor q = at(0), k = at(kCount), v = at(2 * kCount), out = at(3 * kCount);
  EXPECT_EQ(call(q, k, v, out), "");
  EXPECT_EQ(call(q, q, q, out), "") << "inputs may be one tensor";
  EXPECT_THAT(call(q, k, v, q), HasSubstr("overlaps q = "));
  EXPECT_THAT(call(q, k, v, at(2 * kCount - 1)), HasSubstr("overlaps k = "));
  EXPECT_THAT(call(q, k, v, at(3 * kCount - 1)), HasSubstr("overlaps v = "));
  EXPECT_EQ(call(k, v, v, at(0)), "") << "one ends where the other begins";
}

TEST_F(Overlap, OfTheLseBiasAndMaskToo) {
  const Tensor q = at(0), k = at(kCount), v = at(2 * kCount), out = at(3 * kCount);
  AttentionOptions options;
  options.lse.data = memory_.data() + 4 * kCount;
  EXPECT_EQ(call(q, k, v, out, options), "");
  options.lse.data = memory_.data() + 4 * kCount - 1;
  EXPECT_THAT(call(q, k, v, out, options), HasSubstr("lse = "));
  EXPECT_THAT(call(q, k, v, out, options), HasSubstr("overlaps out = "));
  options.lse.data = memory_.data() + 1;
  EXPECT_THAT(call(q, k, v, out, options), HasSubstr("overlaps q = "));
  options.lse.data = nullptr;
  options.bias = {memory_.data() + 4 * kCount - 1, DType::f32, {0, 0, kSeq, 1}};
  EXPECT_THAT(call(q, k, v, out, options), HasSubstr("overlaps bias = "));
  options.bias = {};
  options.mask = {memory_.data() + 3 * kCount, {0, 0, 0, 1}};
  EXPECT_THAT(call(q, k, v, out, options), HasSubstr("overlaps mask = "));
}

TEST_F(Overlap, SlicesOfOneTensorThatLieApartAreFine) {
  // (seq, 4, heads, dim): q, k, v and out side by side in each row.
  const auto slice = [&](std::int64_t i) {
    Tensor t = at(i * kHeads * kDim);
    t.stride.seq = 4 * kHeads * kDim;
    return t;
  };
  EXPECT_EQ(call(slice(0), slice(1), slice(2), slice(3)), "");
  EXPECT_THAT(call(slice(0), slice(1), slice(2), slice(0)), HasSubstr("overlaps q = "));
  // One begins inside of a dense one, or a dense one at one's first element.
  EXPECT_THAT(call(slice(0), slice(1), slice(2), at(0)), HasSubstr("overlaps"));
  EXPECT_THAT(call(at(0), slice(1), slice(2), slice(3)), HasSubstr("overlaps q = "));
}

TEST_F(Overlap, RepeatedAndAbsentKeys) {
  Tensor k = at(kCount), q = at(0), out = at(3 * kCount);
  k.stride.head = 0;  // its rows have gaps of a head
  k.stride.seq = kDim;
  EXPECT_EQ(call(q, k, k, out), "");
  EXPECT_THAT(call(q, k, k, at(kCount + kSeq * kDim - 1)), HasSubstr("overlaps k = "));
  EXPECT_EQ(call(q, k, k, at(kCount + kSeq * kDim)), "");
  const Tensor none = at(3 * kCount + 8, 0);  // no keys: nothing is read
  EXPECT_EQ(call(q, none, none, out), "");
}

}  // namespace
}  // namespace hipflash
