// Products of f32 on matrix units that take f16: mma.sync m16n8k16 and ldmatrix, sm_80 and up.
//
// A row of numbers is multiplied by the power of two that brings its largest to 2^14 or just above.
// Then each is the sum of two f16 numbers, x = high + low: to 22 bits, or, where it is below 2^-16
// of the row's largest, to 2^-39 of that. Of the product of two such sums all but low * low is
// computed, which is below 2^-22 of the product and has either sign. The powers of two come back as
// factors, one for each row.
#pragma once

#include "gpu/tile/nv/rows_f32.h"

namespace hipflash {

// A power of two that brings x >= 0 into 2^14 .. 2^15, and its inverse. Both are normal numbers, so
// x below 2^-112 stays below 2^14; the least of f32, 2^-149, becomes 2^-23, which f16 has.
struct PowerOfTwo {
  float factor, inverse;
};
HF_DEVICE PowerOfTwo power_for(float x) {
  const int exponent = max((int)(__float_as_uint(x) >> 23), 15);
  return {__int_as_float((268 - exponent) << 23), __int_as_float((exponent - 14) << 23)};
}

// Two numbers in two words of f16. Where one is not finite, neither is its low part.
HF_DEVICE void split(float x, float y, unsigned& high, unsigned& low) {
  high = pack(x, y);
  low = pack(x - half_to_float((unsigned short)high),
             y - half_to_float((unsigned short)(high >> 16)));
}

// A tile of rows in shared memory, first as they come, in f32, then in parts: eight columns are 16
// bytes of high parts, then 16 bytes of low parts, in the place of their f32. The 16 bytes between
// rows let both ldmatrix and the eight lanes that share a row meet every bank once.
//
// All threads of the block copy and split; what a thread copies and what it splits is the same.
template <int Rows, int Columns>
struct PairTile {
  static_assert(Columns % 16 == 0);
  static constexpr int kColumns = Columns;
  static constexpr int kPitch = 4 * Columns + 16;  // bytes
  static constexpr int kBytes = Rows * kPitch;
  static constexpr int kRowLanes = 8, kAtOnce = kThreads / kRowLanes;
  static constexpr int kPieces = (Columns / 4 + kRowLanes - 1) / kRowLanes;  // of a lane

  static constexpr int kRounds = (Rows + kAtOnce - 1) / kAtOnce;  // rows of a lane

  HF_DEVICE static bool has_row(int row) { return Rows % kAtOnce == 0 || row < Rows; }
  HF_DEVICE static bool has_column(int column) {
    return Columns % (4 * kRowLanes) == 0 || column < Columns;
  }

  // Copies rows that lie distance(row) floats from `from`. kWhole: all of them exist. Otherwise
  // rows outside first..end-1 and columns from `columns` on become zeros and are not read.
  template <bool kWhole, class Distance>
  HF_DEVICE static void copy(unsigned tile, const float* from, Distance&& distance, int first,
                             int end, int columns) {
    const int thread = fresh_thread();
    constexpr int kUnroll = kWhole ? kRounds : 1;
#pragma unroll kUnroll
    for (int round = 0; round < kRounds; round++) {
      const int row = thread / kRowLanes + round * kAtOnce;
      if (!has_row(row)) continue;
      const bool exists = kWhole || (row >= first && row < end);
      const float* source = from + (exists ? distance(row) : 0);
      HF_UNROLL
      for (int i = 0; i < kPieces; i++) {
        const int column = 4 * (thread % kRowLanes + kRowLanes * i);
        if (!has_column(column)) continue;
        const int count = kWhole ? 4 : exists ? min(max(columns - column, 0), 4) : 0;
        const unsigned to = tile + row * kPitch + 4 * column;
        if constexpr (Spec::aligned) {
          copy_piece(to, (const char*)(count ? source + column : from), 4 * count);
        } else {
          HF_UNROLL
          for (int e = 0; e < 4; e++)
            copy_word(to + 4 * e, (const char*)(e < count ? source + column + e : from), e < count);
        }
      }
    }
  }

  // Splits what this thread has copied, and leaves a factor for each row at `factors`.
  HF_DEVICE static void split_rows(unsigned tile, unsigned factors) {
    const int thread = fresh_thread(), lane = thread % kRowLanes;
#pragma unroll 1
    for (int round = 0; round < kRounds; round++) {
      const int row = thread / kRowLanes + round * kAtOnce;
      if (!has_row(row)) continue;
      const unsigned at = tile + row * kPitch;
      float4 x[kPieces];
      float largest = 0.0f;
      HF_UNROLL
      for (int i = 0; i < kPieces; i++) {
        const int piece = lane + kRowLanes * i;
        x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (has_column(4 * piece)) x[i] = load_piece(at + 16 * piece);
        largest = fmaxf(largest, fmaxf(fmaxf(hf_abs(x[i].x), hf_abs(x[i].y)),
                                       fmaxf(hf_abs(x[i].z), hf_abs(x[i].w))));
      }
      HF_UNROLL
      for (int d = 1; d < kRowLanes; d *= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
      const PowerOfTwo power = power_for(largest);
      __syncwarp();  // two lanes write to each other's places
      HF_UNROLL
      for (int i = 0; i < kPieces; i++) {
        const int piece = lane + kRowLanes * i;
        unsigned high[2], low[2];
        split(x[i].x * power.factor, x[i].y * power.factor, high[0], low[0]);
        split(x[i].z * power.factor, x[i].w * power.factor, high[1], low[1]);
        if (has_column(4 * piece)) {
          const unsigned to = at + piece / 2 * 32 + piece % 2 * 8;
          store_words(to, high[0], high[1]);
          store_words(to + 16, low[0], low[1]);
        }
      }
      if (lane == 0) store_word(factors + 4 * row, power.inverse);
    }
  }
};

// A fragment of 16 x 16 numbers.
struct Pair {
  unsigned high[4], low[4];
};

// Where a lane reads, for row_block = column_block = 0. Lanes 0-15 address the rows, 16-31 the next
// 8 columns: Q (A operand) and V (transposed).
template <class Tile>
HF_DEVICE unsigned rows_first_place(int lane) {
  return lane % 16 * Tile::kPitch + lane / 16 * 32;
}
// Lanes 8-15 and 24-31 address the next 8 columns, 16-31 the next 8 rows: K (B operand).
template <class Tile>
HF_DEVICE unsigned columns_first_place(int lane) {
  return (lane % 8 + lane / 16 * 8) * Tile::kPitch + lane / 8 % 2 * 32;
}

template <class Tile, bool kTransposed = false>
HF_DEVICE void read_pair(Pair& x, unsigned place, int row_block, int column_block) {
  const unsigned from = place + row_block * 16 * Tile::kPitch + column_block * 64;
  read_block<kTransposed>(x.high, from);
  read_block<kTransposed>(x.low, from + 16);
}

// c += a . b, or c = a . b.
HF_DEVICE void mma(bool first, float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if (first) {
    mma_first_of<false>(c, a, b0, b1);
  } else {
    mma_of<false>(c, a, b0, b1);
  }
}

}  // namespace hipflash
