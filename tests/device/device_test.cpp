// The whole library on a GPU: plan, compile, load, launch, against float64.
//
// HIPFLASH_TEST_DEVICE names the device ("hip:0", "cuda:0"); without it the first GPU is taken, and
// without a GPU these tests are skipped. The suites Small and Grid are small enough for an emulated
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/on_device.h"

namespace hipflash::testing {
namespace {

using Small = OnDevice;
using Grid = OnDevice;
using Full = OnDevice;

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
constexpr std::int64_t kFieldDims[] = {32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256, 512};

TEST_F(Small, EveryDtypeFullAndCausal) {
  for (const DType dtype : kDtypes) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.dtype = dtype;
      c.heads_kv = 1;
      c.seq_q = 70;
      c.seq_k = 90;
      c.causal = causal;
      expect_right(c);
    }
  }
}

TEST_F(Small, HeadDimensionsWithTails) {
  for (const std::int64_t dim : {32, 40, 59, 128}) {
    AttentionCase c;
    c.dtype = DType::f16;
    c.heads_q = c.heads_kv = 1;
    c.seq_q = 33;
    c.seq_k = 65;
    c.dim = dim;
    expect_right(c);
  }
}

TEST_F(Small, ModifiersAndMasks) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.batch = 2;
  c.seq_q = 40;
  c.seq_k = 50;
  c.window = {20, 3};
  c.softcap = 5.0f;
  c.alibi = c.alibi_per_batch = true;
  c.bias = Cells::shared_heads;
  c.mask = Cells::one_row;
  expect_right(c);
}

TEST_F(Small, ValueDimensionOfItsOwn) {
  AttentionCase c;
  c.dtype = DType::bf16;
  c.seq_q = 20;
  c.seq_k = 70;
  c.dim = 64;
  c.value_dim = 48;
  expect_right(c);
}

TEST_F(Small, RowsThatSeeNothingAndNoKeys) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.seq_q = 40;
  c.seq_k = 1;
  c.causal = true;
  expect_right(c);
  c.seq_k = 0;
  expect_right(c);
}

TEST_F(Small, RerunsAreBitEqual) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.seq_q = c.seq_k = 100;
  c.causal = true;
  AttentionData data(c);
  data.poison();
  DeviceCopies copies;
  const TensorPointers device = upload(copies, data);
  const Plan plan = context().plan(data.problem());
  plan.run(device);
  copies.download_all();
  const auto out = data.out.bytes();
  const auto lse = data.lse;
  for (int i = 0; i < 3; ++i) {
    plan.run(device);
    copies.download_all();
    ASSERT_EQ(data.out.bytes(), out);
    ASSERT_TRUE(std::equal(lse.begin(), lse.end() - 1, data.lse.begin()));
  }
}

// Every class of features at every kind of head dimension, with tails in queries and keys.
void expect_grid_right(DType dtype,
                       void (*expect_right)(const AttentionCase&, const std::string&)) {
  constexpr std::pair<std::int64_t, std::int64_t> kDims[] = {{40, 40},   {64, 64},   {96, 96},
                                                             {128, 128}, {192, 128}, {256, 256}};
  constexpr void (*kFeatures[])(AttentionCase&) = {
      [](AttentionCase&) {},
      [](AttentionCase& c) { c.causal = true; },
      [](AttentionCase& c) {
        c.window = {20, 7};
      },
      [](AttentionCase& c) {
        c.causal = c.alibi = true;
        c.softcap = 5.0f;
      },
      [](AttentionCase& c) {
        c.bias = Cells::shared_heads;
        c.mask = Cells::full;
      },
      [](AttentionCase& c) {  // rows that are not 16-byte aligned
        c.causal = true;
        c.layout = Layout::padded_rows;
      },
  };
  std::uint64_t seed = 0;
  for (const auto& [dim, value_dim] : kDims) {
    for (const auto feature : kFeatures) {
      AttentionCase c;
      c.dtype = dtype;
      c.heads_kv = 1;
      c.seq_q = 37;
      c.seq_k = 75;
      c.dim = dim;
      c.value_dim = value_dim;
      c.seed = ++seed;
      feature(c);
      expect_right(c, {});
    }
  }
}

TEST_F(Grid, HalfPrecision) {
  expect_grid_right(DType::f16, expect_right);
}
TEST_F(Grid, Bfloat16) {
  expect_grid_right(DType::bf16, expect_right);
}
TEST_F(Grid, SinglePrecision) {
  expect_grid_right(DType::f32, expect_right);
}

// So many keys that plans take the tiles of long sequences, of which most rows see a few.
TEST_F(Full, NarrowWindowsOfLongSequences) {
  constexpr Window kWindows[] = {{40, 30}, {0, 0}, {99, -1}, {300, 200}};
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const std::int64_t dim : {64, 96, 128, 192, 256}) {
      for (const Window& window : kWindows) {
        AttentionCase c;
        c.dtype = dtype;
        c.heads_q = c.heads_kv = 1;
        c.seq_q = 700;
        c.seq_k = 3200;
        c.dim = c.value_dim = dim;
        c.window = window;
        expect_right(c, {});
      }
    }
  }
}

// A head dimension each, so that shards can share them.
class FieldShapes : public OnDevice, public ::testing::WithParamInterface<std::int64_t> {};

TEST_P(FieldShapes, EveryDtypeAndMask) {
  constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
      {113, 203},   {128, 217},   {113, 211}, {108, 256}, {256, 512}, {512, 256}, {1024, 1024},
      {1023, 1024}, {1024, 1023}, {1, 239},   {3, 799},   {127, 512}, {799, 3}};
  // Every dtype meets every part; all else is drawn, so that no choice goes with another one.
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  for (const DType dtype : kDtypes) {
    for (int part = 0; part < 4; ++part) {
      AttentionCase c;
      c.dtype = dtype;
      c.dim = GetParam();
      c.layout = static_cast<Layout>(draw(4));
      c.heads_q = 6;
      c.heads_kv = std::array{6, 2, 1}[draw(3)];
      std::tie(c.seq_q, c.seq_k) = kShapes[draw(std::size(kShapes))];
      c.causal = part == 1;
      if (part == 2) {
        c.window = {std::array{-1, 0, 40, 300}[draw(4)], std::array{-1, 0, 7, 90}[draw(4)]};
        c.alignment = draw(2) ? MaskAlignment::top_left : MaskAlignment::bottom_right;
      }
      if (part == 3) {
        c.causal = draw(2) == 0;
        c.softcap = draw(2) ? 30.0f : 0.0f;
        c.alibi = draw(2) == 0;
        c.alibi_per_batch = draw(2) == 0;
        c.bias = static_cast<Cells>(draw(4));
        c.bias_in_dtype = draw(2) == 0;
        c.mask = static_cast<Cells>(draw(4));
      }
      c.seed = draw(1u << 20);
      expect_right(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Full, FieldShapes, ::testing::ValuesIn(kFieldDims),
                         [](const auto& dim) { return std::to_string(dim.param); });

TEST_F(Full, LongKeysAreSplitAndMerged) {
  for (const DType dtype : kDtypes) {
    AttentionCase c;
    c.dtype = dtype;
    c.heads_q = 2;
    c.heads_kv = 1;
    c.seq_q = 16;
    c.seq_k = 20000;
    c.dim = 128;
    c.causal = true;
    expect_right(c);
  }
}

TEST_F(Full, MemoryOfAnotherDeviceIsRefused) {
  if (driver().device_count() < 2) GTEST_SKIP() << "one device";
  AttentionCase c;
  c.dtype = DType::f16;
  AttentionData data(c);
  DeviceCopies copies;
  TensorPointers device = upload(copies, data);
  void* const elsewhere = driver().allocate(1, 1 << 20);
  device.k = elsewhere;
  const Plan plan = context().plan(data.problem());
  EXPECT_THROW(plan.run(device), Error);
  driver().release(1, elsewhere);
}

}  // namespace
}  // namespace hipflash::testing
