// What appends and merges write may not lie where they read.
#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "hipflash/kv_cache.h"
#include "hipflash/merge.h"
#include "refusal.h"

namespace hipflash {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRows = 2, kHeads = 2, kDim = 8, kCount = kRows * kHeads * kDim;

class OperationsOverlap : public ::testing::Test {
 protected:
  Tensor at(std::int64_t offset, std::int64_t rows = kRows) {
    return Tensor::bshd(memory_.data() + offset, DType::f32, 1, rows, kHeads, kDim);
  }
  static Context& context() {
    static auto* const made = new Context(DeviceId{});
    return *made;
  }
  std::string merge(const std::vector<PartialResult>& parts, const Tensor& out, float* lse) {
    return refusal([&] { merge_partials(context(), parts, out, {lse, {}}); });
  }
  PartialResult part(std::int64_t offset, std::int64_t lse, std::int64_t count = 1) {
    return {at(offset), {norms_.data() + lse, {}}, count, kCount, kRows * kHeads};
  }

  std::vector<float> memory_ = std::vector<float>(16 * kCount, 0.25f);
  std::vector<float> norms_ = std::vector<float>(64, 0.5f);
};

TEST_F(OperationsOverlap, OfAMergeIsRefused) {
  float* const lse = norms_.data() + 32;
  EXPECT_EQ(merge({part(0, 0), part(kCount, 4)}, at(2 * kCount), lse), "");
  EXPECT_EQ(merge({part(0, 0), part(kCount, 4)}, at(kCount), lse), "") << "it is one of the parts";
  EXPECT_THAT(merge({part(0, 0), part(kCount, 4)}, at(kCount + 1), lse), HasSubstr("out = "));
  EXPECT_THAT(merge({part(0, 0), part(kCount, 4)}, at(2 * kCount - 1), lse),
              HasSubstr("overlaps parts[1].out = "));
  EXPECT_THAT(merge({part(0, 0), part(kCount, 4)}, at(2 * kCount), norms_.data() + 7),
              HasSubstr("overlaps parts[1].lse = "));
  EXPECT_THAT(merge({part(0, 0)}, at(2 * kCount), memory_.data() + 3 * kCount - 1),
              HasSubstr("overlaps out = "));
  EXPECT_THAT(merge({part(0, 0)}, at(2 * kCount), memory_.data() + kCount - 1),
              HasSubstr("overlaps parts[0].out = "));
  // Of parts with several results any may be replaced.
  EXPECT_EQ(merge({part(0, 0, 3)}, at(2 * kCount), lse), "");
  EXPECT_THAT(merge({part(0, 0, 3)}, at(2 * kCount + 4), lse), HasSubstr("parts[0].out"));
  EXPECT_THAT(merge({part(0, 0, 3)}, at(4 * kCount), norms_.data() + 11),
              HasSubstr("parts[0].lse"));
  EXPECT_EQ(merge({part(0, 0, 3)}, at(3 * kCount), norms_.data() + 12), "");
  // Unless they share rows: what takes the place of one is read as another's.
  PartialResult shared = part(0, 0, 2);
  shared.out_step = kHeads * kDim;
  EXPECT_EQ(merge({shared}, at(4 * kCount), lse), "");
  EXPECT_THAT(merge({shared}, at(0), lse), HasSubstr("parts[0].out"));
  // The same place with other strides is not the same tensor.
  Tensor other = at(0);
  other.stride = {0, kDim, kRows * kDim};
  EXPECT_THAT(merge({part(0, 0)}, other, lse), HasSubstr("parts[0].out"));
}

TEST_F(OperationsOverlap, EmptyPartsAndResultsNeedNoMemory) {
  PartialResult none = part(0, 0, 0);
  none.out.data = nullptr;
  none.lse.data = nullptr;
  EXPECT_EQ(merge({part(0, 0), none}, at(2 * kCount), norms_.data() + 32), "");
  EXPECT_EQ(merge({none}, at(2 * kCount), norms_.data() + 32), "");
  EXPECT_EQ(norms_[32], -std::numeric_limits<float>::infinity());
  PartialResult empty{at(0, 0), {}};
  empty.out.data = nullptr;
  EXPECT_EQ(merge({empty}, empty.out, nullptr), "");
}

TEST_F(OperationsOverlap, OfAnAppendIsRefused) {
  const std::vector<float> cos(64, 1.0f), sin(64, 0.0f);
  std::vector<std::int32_t> lengths = {1, 0, 0}, next(3);
  const Tensor k_new = at(0), v_new = at(kCount), k_cache = at(2 * kCount, 2 * kRows),
               v_cache = at(4 * kCount, 2 * kRows);
  AppendOptions good;
  good.cache.lengths = lengths.data();
  good.rotary = {cos.data(), sin.data(), DType::f32, 0, 16, 0, false};
  good.q = at(6 * kCount);
  good.q_out = at(7 * kCount);
  good.new_lengths = next.data();
  const auto append = [&](const AppendOptions& options) {
    return refusal([&] { append_kv(context(), k_new, v_new, k_cache, v_cache, options); });
  };
  EXPECT_EQ(append(good), "");
  AppendOptions options = good;
  options.q_out = options.q;
  EXPECT_EQ(append(options), "") << "in place";
  for (const auto& [offset, name] :
       std::vector<std::pair<std::int64_t, const char*>>{{6 * kCount + 1, "options.q"},
                                                         {kCount - 1, "k_new"},
                                                         {kCount, "v_new"},
                                                         {3 * kCount, "k_cache"},
                                                         {6 * kCount - 1, "v_cache"}}) {
    options.q_out = at(offset);
    EXPECT_THAT(append(options), HasSubstr(name));
  }
  options = good;
  options.new_lengths = lengths.data();
  EXPECT_THAT(append(options), HasSubstr("overlaps options.cache.lengths = "));
  options.new_lengths = reinterpret_cast<std::int32_t*>(memory_.data() + 7 * kCount);
  EXPECT_THAT(append(options), HasSubstr("overlaps options.q_out = "));
  options = good;
  options.rotary.cos = memory_.data() + 5 * kCount;
  EXPECT_THAT(append(options), HasSubstr("overlaps options.rotary.cos = "));
  options = good;
  options.q = at(5 * kCount);
  EXPECT_THAT(append(options), HasSubstr("v_cache = "));
  options.q_out = options.q;
  EXPECT_THAT(append(options), HasSubstr("overlaps options.q = "));
  options = good;
  std::vector<std::int64_t> offsets = {0, kRows};
  options.cu_seqlens = offsets.data();
  options.offsets_are_64bit = true;
  options.batch = 1;
  EXPECT_EQ(append(options), "");
  options.new_lengths = reinterpret_cast<std::int32_t*>(&offsets[1]);
  EXPECT_THAT(append(options), HasSubstr("overlaps options.cu_seqlens = "));
  // New rows may come from the cache, and both caches may be one.
  options = {};
  EXPECT_EQ(refusal([&] { append_kv(context(), k_cache, k_cache, k_cache, k_cache, options); }),
            "");
}

}  // namespace
}  // namespace hipflash
