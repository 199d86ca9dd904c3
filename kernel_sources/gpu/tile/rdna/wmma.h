// The words of attention_forward_rdna.hip: operands and accumulators of 16x16x16 matrix products,
// conversions of 16-bit elements, rows in global memory, and the other half of a wave.
#pragma once

#if defined(__AMDGCN__)
#include "gpu/tile/rdna/wmma_unit.h"
#else
#include "gpu/tile/rdna/host_wmma.h"
#endif
#include "common/sequence.h"
#include "gpu/tile/amd/pages.h"

namespace hipflash {

HF_DEVICE Accumulator hf_abs(Accumulator x) {
  HF_UNROLL
  for (int r = 0; r < 8; r++) x[r] = hf_abs(static_cast<float>(x[r]));
  return x;
}
HF_DEVICE Accumulator hf_tanh(Accumulator x) {
  HF_UNROLL
  for (int r = 0; r < 8; r++) x[r] = hf_tanh(static_cast<float>(x[r]));
  return x;
}

HF_DEVICE float other_half(float x) {
  return from_bits(other_half(bits(x)));
}

}  // namespace hipflash

#if HF_WMMA_GENERATION == 12
#include "gpu/tile/rdna/wmma_gfx12.h"
#else
#include "gpu/tile/rdna/wmma_gfx11.h"
#endif

namespace hipflash {

// ---- conversions --------------------------------------------------------------------------------

// Two probabilities to 16 bits, rounded toward zero: one instruction for either type.
HF_DEVICE u32 pack_truncated(float low, float high) {
  return Spec::element == ElementType::bf16 ? pack_bf16_toward_zero(low, high)
                                            : pack_f16_toward_zero(low, high);
}

// What truncation takes from a probability on average (0.7213 half units in the last place,
// relative). Exponents are raised by as much and outputs scaled to match, so P is not biased.
constexpr float kTruncationLoss = Spec::element == ElementType::bf16 ? 2.818e-3f : 3.522e-4f;

// Two values to 16 bits, rounded to nearest even.
HF_DEVICE u32 pack_nearest(float low, float high) {
  return Spec::element == ElementType::bf16 ? pack_bf16_nearest(low, high)
                                            : pack_f16_nearest(low, high);
}

HF_DEVICE void store_element(void* to, long long at, float x) {
  static_cast<u16*>(to)[at] = static_cast<u16>(pack_nearest(x, 0.0f));
}

// ---- operands in shared memory ------------------------------------------------------------------

// Rows are multiples of 16 bytes, so that is all the alignment there is.
using OperandInMemory = Operand __attribute__((aligned(16)));
HF_DEVICE Operand load_operand(const char* at) {
  return *reinterpret_cast<const OperandInMemory*>(at);
}
HF_DEVICE void store_operand(char* at, Operand operand) {
  *reinterpret_cast<OperandInMemory*>(at) = operand;
}

// ---- rows in global memory ----------------------------------------------------------------------

// Whether rows of `dim` elements can be moved in 16-byte pieces.
constexpr bool whole_pieces(int dim) {
  return Spec::aligned && dim % 8 == 0;
}

// Elements dim..dim+7 of a row of kDim; those past its end are 0. There the first or the last
// element is loaded instead, so nothing branches.
template <int kDim>
HF_DEVICE u32x4 load_piece(const u16* row, int dim) {
  u32x4 piece = {0, 0, 0, 0};
  if constexpr (kDim % 8 == 0) {
    const bool inside = dim < kDim;
    const u16* from = row + (inside ? dim : 0);
    if constexpr (whole_pieces(kDim)) {
      piece = *reinterpret_cast<const u32x4*>(from);
    } else {
      __builtin_memcpy(&piece, from, 16);
    }
    return inside ? piece : u32x4{0, 0, 0, 0};
  }
  HF_UNROLL
  for (int i = 0; i < 8; i++) {
    const bool inside = dim + i < kDim;
    const u32 element = row[inside ? dim + i : kDim - 1];
    piece[i / 2] |= (inside ? element : 0u) << (16 * (i % 2));
  }
  return piece;
}

// Writes elements dim..dim+7 of a row of kDim, as far as it goes.
template <int kDim>
HF_DEVICE void store_piece(u16* row, int dim, u32x4 piece) {
  if constexpr (whole_pieces(kDim)) {
    if (dim < kDim) *reinterpret_cast<u32x4*>(row + dim) = piece;
  } else if constexpr (kDim % 8 == 0) {
    if (dim < kDim) __builtin_memcpy(row + dim, &piece, 16);
  } else {
    HF_UNROLL
    for (int i = 0; i < 8; i++) {
      const u32 word = piece[i / 2];
      if (dim + i < kDim) row[dim + i] = static_cast<u16>(word >> (16 * (i % 2)));
    }
  }
}

// Raw buffers as a type of their own, where the compiler has it: it then knows that they are apart
// from shared memory and keeps descriptors scalar.
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
using RowBuffer = __amdgpu_buffer_rsrc_t;
HF_DEVICE RowBuffer make_row_buffer(const u16* base, int bytes) {
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<u16*>(base), 0, bytes, 0x31004000);
}
HF_DEVICE u32x4 load_row(RowBuffer buffer, int offset) {
  return __builtin_amdgcn_raw_buffer_load_b128(buffer, offset, 0, 0);
}
#else
using RowBuffer = Buffer;
HF_DEVICE RowBuffer make_row_buffer(const u16* base, int bytes) {
  return make_buffer(base, bytes);
}
HF_DEVICE u32x4 load_row(RowBuffer buffer, int offset) {
  return load4(buffer, offset);
}
#endif

// Elements dim..dim+7 of a row of kDim at an address; those past its end are 0.
template <int kDim>
HF_DEVICE u32x4 load_piece_at(Address row, int dim) {
  if constexpr (whole_pieces(kDim)) {
    return load_at<u32x4>(dim < kDim ? row + static_cast<Address>(dim * 2) : zero_row());
  }
  u32x4 piece = {0, 0, 0, 0};
  HF_UNROLL
  for (int i = 0; i < 8; i++) {
    const bool inside = dim + i < kDim;
    const u32 element = load_at<u16>(row + static_cast<Address>((inside ? dim + i : kDim - 1) * 2));
    piece[i / 2] |= (inside ? element : 0u) << (16 * (i % 2));
  }
  return piece;
}

// Rows of kDim elements, kTile of them at a time: K or V of one head. Rows from `end` on read as 0.
// Tiles are asked for one after another.
template <int kDim, int kTile>
struct Rows {
  const u16* base;
  long long stride;  // elements
  int end;
  PagedRows<kTile> pages;  // in place of the above

  HF_MEMBER void start(const AttentionArgs& args, const void* tensor, const RowStrides& strides,
                       int batch, int head, int first, int end_of_keys) {
    base = static_cast<const u16*>(tensor) + batch * strides.batch + head * strides.head;
    stride = strides.seq;
    end = end_of_keys;
    if constexpr (Spec::paged) pages.start(args, tensor, strides, head, first, end);
  }

  // A lane's place in every tile: what load() needs for row `row` of the tile, elements dim..dim+7.
  HF_MEMBER int place(int row, int dim, bool active) const {
    if (!active || dim >= kDim) return kNowhere;
    if constexpr (whole_pieces(kDim) && !Spec::paged) {
      return row * static_cast<int>(stride) * 2 + dim * 2;
    }
    // With a row that it knows, hipRTC 6.4 takes the clamp in load() for 0: hide it.
    return opaque(row << 16 | dim);
  }

  struct Tile {
    RowBuffer buffer;
    const u16* base;
    long long stride;
    int rows;
  };

  // The tile from row `first` on. Its base moves in 64 bits; inside of it offsets have 32.
  HF_MEMBER Tile tile(int first) {
    if constexpr (Spec::paged) pages.next();
    const u16* start = base + first * stride;
    int rows = end - first;
    rows = rows < kTile ? rows : kTile;
    int bytes = 0;
    if constexpr (whole_pieces(kDim)) {
      bytes = rows > 0 ? ((rows - 1) * static_cast<int>(stride) + kDim) * 2 : 0;
    }
    return {make_row_buffer(start, bytes), start, stride, rows};
  }

  HF_MEMBER u32x4 load(const Tile& tile, int place) const {
    if constexpr (Spec::paged) {
      return load_piece_at<kDim>(pages.address(place >> 16), place & 0xffff);
    } else if constexpr (whole_pieces(kDim)) {
      return load_row(tile.buffer, place);
    } else {
      // Rows past the end: the last one is loaded instead.
      const int row = place >> 16, last = tile.rows - 1;
      const u32x4 piece =
          load_piece<kDim>(tile.base + (row < last ? row : last) * tile.stride, place & 0xffff);
      return row <= last ? piece : u32x4{0, 0, 0, 0};
    }
  }
};

}  // namespace hipflash
