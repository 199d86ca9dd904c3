// Tiny problems on a GPU: the family for a handful of keys, and what stays with the general ones.
#include <gtest/gtest.h>

#include "device/on_device.h"

namespace hipflash::testing {
namespace {

using SmallTiny = OnDevice;
using FullTiny = OnDevice;

constexpr const char* kTiny = "gpu/attention_tiny.hip";
constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

AttentionCase tiny_case(DType dtype, std::int64_t seq_q, std::int64_t seq_k, std::int64_t dim) {
  AttentionCase c;
  c.dtype = dtype;
  c.batch = 3;
  c.heads_q = c.heads_kv = 2;
  c.seq_q = seq_q;
  c.seq_k = seq_k;
  c.dim = dim;
  return c;
}

TEST_F(SmallTiny, EveryDtype) {
  for (const DType dtype : kDtypes) expect_right(tiny_case(dtype, 1, 2, 128), kTiny);
}

TEST_F(SmallTiny, HeadDimensionsAndNumbersOfKeys) {
  expect_right(tiny_case(DType::f16, 1, 1, 64), kTiny);
  expect_right(tiny_case(DType::f16, 1, 5, 40), kTiny);
  expect_right(tiny_case(DType::bf16, 2, 8, 96), kTiny);
  expect_right(tiny_case(DType::f16, 1, 2, 512), kTiny);
  AttentionCase c = tiny_case(DType::f16, 3, 4, 8);
  c.value_dim = 72;
  expect_right(c, kTiny);
}

TEST_F(SmallTiny, MasksAndModifiers) {
  AttentionCase c = tiny_case(DType::f16, 4, 3, 64);
  c.heads_q = 6;
  c.causal = true;  // the first query sees nothing
  expect_right(c, kTiny);
  c.softcap = 5.0f;
  c.alibi = c.alibi_per_batch = true;
  c.bias = Cells::full;
  c.mask = Cells::full;
  c.scale = -0.3f;
  expect_right(c, kTiny);
}

TEST_F(SmallTiny, OthersTakeTheGeneralFamilies) {
  AttentionCase c = tiny_case(DType::f16, 1, 2, 64);
  c.layout = Layout::padded_rows;
  expect_right(c);
  AttentionData data(c);
  const Explanation why = context().explain(data.problem());
  EXPECT_NE(why.family, kTiny);
  EXPECT_NE(why.reason.find("not attention_tiny"), std::string::npos) << why.reason;
  AttentionCase odd = tiny_case(DType::f16, 1, 2, 59);
  expect_right(odd);
}

TEST_F(FullTiny, RandomShapes) {
  std::uint64_t turn = 0;
  for (const std::int64_t dim : {8, 32, 40, 64, 80, 128, 256, 512}) {
    for (const DType dtype : kDtypes) {
      for (const std::int64_t keys : {1, 2, 3, 4, 6, 8}) {
        AttentionCase c = tiny_case(dtype, 1 + static_cast<std::int64_t>(turn % 4), keys, dim);
        c.batch = 17;
        c.heads_q = 6;
        c.heads_kv = turn % 3 == 0 ? 6 : turn % 3 == 1 ? 2 : 1;
        c.layout = static_cast<Layout>(turn % 3);
        c.causal = turn % 2 == 1;
        if (turn % 5 == 2) c.window = {1, 0};
        c.bias = static_cast<Cells>(turn / 2 % 4);
        c.bias_in_dtype = turn % 7 == 0;
        c.mask = static_cast<Cells>(turn / 3 % 4);
        c.alibi = turn % 3 == 0;
        c.seed = ++turn;
        expect_right(c);
      }
    }
  }
}

}  // namespace
}  // namespace hipflash::testing
