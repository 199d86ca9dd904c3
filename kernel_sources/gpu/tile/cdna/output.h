// Output from registers to global memory.
#pragma once

#include "gpu/tile/cdna/tiles.h"

namespace hipflash {

// Calls store(first, values) for the lane's runs of kChunk consecutive value dims of its query.
// Factor 0 is that of a row that sees nothing: its result is 0 whatever the tile holds.
template <class Store>
HF_DEVICE void for_each_run(const OutputTile& tile, float factor, Store&& store) {
  const auto scaled = [&](int first, float(&run)[kChunk]) HF_LAMBDA {
    HF_UNROLL for (int i = 0; i < kChunk; i++) run[i] = factor == 0.0f ? 0.0f : run[i] * factor;
    store(first, run);
  };
  ValueFragments::for_each_run(tile, scaled);
}

HF_DEVICE u32 pack_nearest(float a, float b) {
  return kF16 ? pack_f16_nearest(a, b) : pack_bf16_nearest(a, b);
}

// A chunk of the output.
HF_DEVICE u32x4 packed_run(const float (&run)[kChunk]) {
  u32x4 chunk;
  HF_UNROLL for (int i = 0; i < 4; i++) {
    chunk[i] = kF32 ? bits(run[i]) : pack_nearest(run[2 * i % kChunk], run[(2 * i + 1) % kChunk]);
  }
  return chunk;
}

// By itself: relaxed atomics keep the compiler from joining neighbours into words, which may lie on
// odd addresses here.
HF_DEVICE void store_element(void* base, long long at, float x) {
  if constexpr (kF32) {
    static_cast<float*>(base)[at] = x;
  } else {
    const u16 packed = static_cast<u16>(pack_nearest(x, x));
    __atomic_store_n(static_cast<u16*>(base) + at, packed, __ATOMIC_RELAXED);
  }
}

// The lane's row of the output to anywhere; `there`: it exists.
HF_DEVICE void store_row(const OutputTile& tile, float factor, char* row, bool there, int dim) {
  for_each_run(tile, factor, [&](int first, const float(&run)[kChunk]) HF_LAMBDA {
    if constexpr (kVectors) {
      if (there && first < dim) {
        store_at(address_of(row + first * kElementBytes), packed_run(run));
      }
    } else {
      HF_UNROLL for (int i = 0; i < kChunk; i++) {
        if (there && first + i < dim) store_element(row, first + i, run[i]);
      }
    }
  });
}

HF_DEVICE void store_rows(const OutputTile& tile, float factor, const Rows& rows, int dim) {
  const int row = row_of_lane();
  if constexpr (kVectors) {
    const Buffer buffer = buffer_of(rows, dim, kRows);
    for_each_run(tile, factor, [&](int first, const float(&run)[kChunk]) HF_LAMBDA {
      const u32x4 chunk = packed_run(run);
      const int at = row * static_cast<int>(rows.stride) + first * kElementBytes;
      const bool inside = kValueDim == Spec::value_head_dim || first < dim;
      store4(buffer, inside && row < rows.count ? at : kNowhere, chunk);
    });
  } else {
    store_row(tile, factor, const_cast<char*>(rows.base + row * rows.stride), row < rows.count,
              dim);
  }
}

// The lane's row as f32.
HF_DEVICE void store_partial(const OutputTile& tile, float factor, float* row, bool there,
                             int dim) {
  for_each_run(tile, factor, [&](int first, const float(&run)[kChunk]) HF_LAMBDA {
    HF_UNROLL for (int i = 0; i < kChunk; i++) {
      if (there && first + i < dim) row[first + i] = run[i];
    }
  });
}

}  // namespace hipflash
