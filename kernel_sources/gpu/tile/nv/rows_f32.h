// Rows of f32 between global memory, shared memory and registers, on NVIDIA: cp.async, 16-byte
// pieces.
#pragma once

#include "common/partials.h"
#include "gpu/tile/nv/schedule.h"

namespace hipflash {

HF_DEVICE float component(const float4& x, int e) {
  return e == 0 ? x.x : e == 1 ? x.y : e == 2 ? x.z : x.w;
}

// The `Threads` threads that call copy rows of `columns` floats; rows outside first..end-1 and
// columns from `columns` on are zeros.
template <int Rows, int Columns, int Pitch, int Threads>
HF_DEVICE void load_rows(unsigned tile, const float* from, long long stride, int first, int end,
                         int columns) {
  if constexpr (Spec::aligned) {
    constexpr int kPer = Columns / 4;
    for (int x = opaque(threadIdx.x); x < Rows * kPer; x += Threads) {
      const int row = x / kPer, column = x % kPer * 4;
      const int count = row >= first && row < end ? min(max(columns - column, 0), 4) : 0;
      copy_piece(tile + 4 * (row * Pitch + column),
                 (const char*)(count ? from + row * stride + column : from), 4 * count);
    }
  } else {
    for (int x = opaque(threadIdx.x); x < Rows * Columns; x += Threads) {
      const int row = x / Columns, column = x % Columns;
      const bool exists = row >= first && row < end && column < columns;
      copy_word(tile + 4 * (row * Pitch + column),
                (const char*)(exists ? from + row * stride + column : from), exists);
    }
  }
}

// The same where row r is `distance(r)` elements from `from`, as of keys in pages. kUnroll: copies
// of a thread at a time, which take registers.
template <int Rows, int Columns, int Pitch, int Threads, int kUnroll, class Distance>
HF_DEVICE void load_rows_at(unsigned tile, const float* from, Distance&& distance, int first,
                            int end, int columns, int thread) {
  constexpr int kStep = Spec::aligned ? 4 : 1, kPer = Columns / kStep;
#pragma unroll kUnroll
  for (int x = thread; x < Rows * kPer; x += Threads) {
    const int row = x / kPer, column = x % kPer * kStep;
    const int count = row >= first && row < end ? min(max(columns - column, 0), kStep) : 0;
    const unsigned to = tile + 4 * (row * Pitch + column);
    const char* at = (const char*)(count ? from + distance(row) + column : from);
    if constexpr (Spec::aligned) {
      copy_piece(to, at, 4 * count);
    } else {
      copy_word(to, at, count != 0);
    }
  }
}

// Where a row of a block's result goes: to the output, or to the partial results of its split.
struct ResultRow {
  float* values;      // the first column of the block's chunk
  float* lse;         // null where nobody wants it
  bool whole_pieces;  // columns may be stored 16 bytes at a time
};
template <int ChunkColumns>
HF_DEVICE ResultRow result_row(const AttentionArgs& args, const Work& work, int query,
                               int value_dim) {
  ResultRow row;
  row.values = (float*)args.out + work.batch * args.out_stride.batch +
               work.head * args.out_stride.head + query * args.out_stride.seq +
               work.chunk * ChunkColumns;
  row.lse = args.lse ? args.lse + work.batch * args.lse_stride.batch +
                           work.head * args.lse_stride.head + query * args.lse_stride.seq
                     : nullptr;
  row.whole_pieces = Spec::aligned;
  if (Spec::split_keys && args.splits > 1) {
    const long long at = partial_row(args, work.split, work.batch, work.head, query);
    row.values = args.partial_out + at * value_dim + work.chunk * ChunkColumns;
    row.lse = args.partial_lse + at;
    row.whole_pieces = false;
  }
  return row;
}

}  // namespace hipflash
