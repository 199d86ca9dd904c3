// Compile-time facts of the kernel, derived from the Spec.
#pragma once

#include "cpu/shape.h"
#include "cpu/simd.h"
#include "cpu/work.h"

namespace hipflash {

using Element = ElementOf<Spec::element>::Type;

constexpr CpuTile kTile = {Spec::tile_queries, Spec::tile_keys, Spec::micro_rows,
                           Spec::micro_vectors};
constexpr int kMicroColumns = Spec::micro_vectors * kLanes;
// The ways that the kernel's chunks may take.
constexpr bool kMayHaveFewRows = Spec::chunk_rows <= kCpuFewRows;
constexpr bool kMayHaveManyRows = Spec::chunk_rows == 0 || Spec::chunk_rows > kCpuFewRows;
constexpr bool kMayHaveFewKeys =
    kMayHaveFewRows && (Spec::few_keys || Spec::chunk_rows == 0 || Spec::ragged ||
                        Spec::window_left || Spec::window_right);

// Rows go through in groups, see cpu/row_groups.h.
constexpr bool kRowsInLanes = Spec::few_keys > 0 && !Spec::ragged && !Spec::split_keys &&
                              !Spec::window_left && !Spec::window_right && !Spec::softcap &&
                              !Spec::alibi && !Spec::bias && !Spec::mask;

constexpr int kRowsToSplit =
    Spec::tile_queries;  // rows of a sequence up to which fixed cuts are made

static_assert(kTile.tile_queries % kTile.micro_rows == 0, "query blocks are whole register blocks");
static_assert(kTile.tile_keys % kMicroColumns == 0, "key blocks are whole register blocks");
static_assert(kTile.tile_keys % (2 * kLanes) == 0, "the softmax takes two vectors at a time");
static_assert(kTile.micro_rows <= kLanes, "queries are packed by square transposition");
static_assert(64 % kMicroColumns == 0, "scratch rows are padded to 64 columns");
static_assert(kUnitElements == 1 || Spec::element == ElementType::bf16,
              "products of bf16 pairs are for bf16 tensors");

HF_DEVICE int head_dim(const AttentionArgs& args) {
  return Spec::head_dim ? Spec::head_dim : args.head_dim;
}
HF_DEVICE int value_head_dim(const AttentionArgs& args) {
  return Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
}

// Units that `elements` along a product's inner dimension take.
HF_DEVICE constexpr int units_of(int elements) {
  return (elements + kUnitElements - 1) / kUnitElements;
}
HF_DEVICE constexpr int round_up(int x, int multiple) {
  return (x + multiple - 1) / multiple * multiple;
}
HF_DEVICE constexpr int min_int(int a, int b) {
  return a < b ? a : b;
}
HF_DEVICE constexpr int max_int(int a, int b) {
  return a > b ? a : b;
}

// Keys of a block where few rows read them in place. Each turn from K to V and back waits for
// memory anew, so there are more of them than are packed at a time, as far as there is room for
// scores.
constexpr int kFewRowsKeys =
    min_int(kTile.tile_queries * kTile.tile_keys / kCpuFewRows / (2 * kLanes) * (2 * kLanes), 1024);

static_assert(kFewRowsKeys >= kMostHeadsTogether * 2 * kLanes, "heads together share the scores");

// A row of a strided tensor.
HF_DEVICE const Element* row_of(const void* tensor, const RowStrides& stride, long long batch,
                                long long seq, long long head) {
  return static_cast<const Element*>(tensor) + batch * stride.batch + seq * stride.seq +
         head * stride.head;
}

}  // namespace hipflash
