// Tiny problems on a GPU: the family for a handful of keys, and what stays with the general ones.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <utility>

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

constexpr const char* kBoard = "gpu/attention_board_sm80.cu";

// The family that a board takes here.
std::string board_family() {
  return test_device().platform == Platform::cuda ? kBoard : "";
}

TEST_F(SmallTiny, Boards) {
  AttentionCase c = tiny_case(DType::f16, 64, 64, 32);
  expect_right(c, board_family());
  c.dtype = DType::bf16;
  c.seq_q = 33;
  c.seq_k = 50;
  c.dim = 72;
  c.causal = true;
  expect_right(c, board_family());
}

// Every head dimension and shape meets every part; all else is drawn, so that no choice goes with
// another one.
TEST_F(FullTiny, BoardsOfEveryKind) {
  std::mt19937_64 random(5);
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  for (const std::int64_t dim : {8, 32, 40, 64, 96, 128}) {
    for (const auto& [seq_q, seq_k] : {std::pair<int, int>{64, 64},
                                       {1, 60},
                                       {17, 90},
                                       {128, 128},
                                       {100, 33},
                                       {64, 65},
                                       {16, 16}}) {
      for (int part = 0; part < 4; ++part) {
        AttentionCase c = tiny_case(draw(2) ? DType::bf16 : DType::f16, seq_q, seq_k, dim);
        c.batch = 5;
        c.heads_q = 6;
        c.heads_kv = seq_q < 16 || draw(3) == 0 ? 6 : 2;
        c.layout = static_cast<Layout>(draw(3));
        if (draw(4) == 0) c.value_dim = 48;
        c.causal = part == 1;
        if (part == 2) {
          c.window = {std::array{-1, 0, 20}[draw(3)], std::array{-1, 0, 7}[draw(3)]};
          c.alignment = draw(2) ? MaskAlignment::top_left : MaskAlignment::bottom_right;
        }
        if (part == 3) {
          c.causal = draw(2) == 0;
          c.softcap = draw(2) ? 30.0f : 0.0f;
          c.alibi = draw(3) != 0;
          c.scale = draw(2) ? 0.2f : -0.2f;
        }
        c.seed = draw(1u << 20);
        expect_right(c, board_family());
      }
    }
  }
}

TEST_F(FullTiny, RandomShapes) {
  std::mt19937_64 random(6);
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  for (const std::int64_t dim : {8, 32, 40, 64, 80, 128, 256, 512}) {
    for (const DType dtype : kDtypes) {
      for (const std::int64_t keys : {1, 2, 3, 4, 6, 8}) {
        AttentionCase c = tiny_case(dtype, 1 + static_cast<std::int64_t>(draw(4)), keys, dim);
        c.batch = 17;
        c.heads_q = 6;
        c.heads_kv = std::array{6, 2, 1}[draw(3)];
        c.layout = static_cast<Layout>(draw(3));
        c.causal = draw(2) == 0;
        if (draw(3) == 0) c.window = {std::array{-1, 0, 1}[draw(3)], std::array{-1, 0, 2}[draw(3)]};
        if (draw(3) == 0) c.softcap = 8.0f;
        c.bias = static_cast<Cells>(draw(4));
        c.bias_in_dtype = draw(2) == 0;
        c.mask = static_cast<Cells>(draw(4));
        c.alibi = draw(2) == 0;
        c.seed = draw(1u << 20);
        expect_right(c);
      }
    }
  }
}

}  // namespace
}  // namespace hipflash::testing
