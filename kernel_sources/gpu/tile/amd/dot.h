// The words of attention_forward_dot.hip: plain multiply-adds in f32 on any card, waves of 32
// or 64.
//
// A quad is four neighbouring elements of a row, in the type they have in memory. Sixteen
// neighbouring threads form a row; they lie in one wave.
#pragma once

#if defined(__AMDGCN__)
#include "gpu/tile/amd/hip.h"
#define HF_UNROLL_BY_2 _Pragma("unroll 2")
#else
#include "gpu/tile/amd/host.h"
#define HF_UNROLL_BY_2
#endif

#include "common/sequence.h"

namespace hipflash {

using FloatQuad = HF_VECTOR(float, 4);
using HalfQuad = HF_VECTOR(u32, 2);

template <int kBytes>
struct QuadOf {
  using Type = HalfQuad;
};
template <>
struct QuadOf<4> {
  using Type = FloatQuad;
};
using Quad = QuadOf<kElementBytes>::Type;

// Element i of a quad as f32.
HF_DEVICE float element(const FloatQuad& quad, int i) {
  return quad[i];
}
HF_DEVICE float element(const HalfQuad& quad, int i) {
  const u32 word = quad[i / 2];
  if constexpr (Spec::element == ElementType::bf16) {
    return from_bits(i % 2 ? word & 0xffff0000u : word << 16);
  } else {
    return f16_to_float(static_cast<u16>(i % 2 ? word >> 16 : word));
  }
}

// Cards that add two f16 products to an f32 in one instruction.
#if defined(__gfx906__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__GFX11__) ||  \
    defined(__GFX12__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || \
    defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
#define HF_DOT2 1
#else
#define HF_DOT2 0
#endif

// sum + a . b
HF_DEVICE float dot(Quad a, Quad b, float sum) {
#if HF_DOT2
  if constexpr (Spec::element == ElementType::f16) {
    const u32 a0 = a[0], a1 = a[1], b0 = b[0], b1 = b[1];
    sum = __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a0), __builtin_bit_cast(f16x2, b0), sum,
                                 false);
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a1), __builtin_bit_cast(f16x2, b1), sum,
                                  false);
  }
#endif
  HF_UNROLL
  for (int i = 0; i < 4; i++) sum = hf_fma(element(a, i), element(b, i), sum);
  return sum;
}

// The value of the thread that is kBy before this one in the circle of its row.
template <int kBy>
HF_DEVICE float rotated(float x) {
#if defined(__AMDGCN__)
  constexpr int kRotateRight = 0x120;
  return from_bits(static_cast<u32>(__builtin_amdgcn_update_dpp(
      0, static_cast<int>(bits(x)), kRotateRight + kBy, 0xf, 0xf, true)));
#else
  return lane_xor(x, kBy);  // serves the reductions below as well
#endif
}

// The largest value, and the sum, of the sixteen threads of a row, in all of them.
HF_DEVICE float row_max(float x) {
  x = hf_max(x, rotated<8>(x));
  x = hf_max(x, rotated<4>(x));
  x = hf_max(x, rotated<2>(x));
  return hf_max(x, rotated<1>(x));
}
HF_DEVICE float row_sum(float x) {
  x += rotated<8>(x);
  x += rotated<4>(x);
  x += rotated<2>(x);
  return x + rotated<1>(x);
}

// ---- elements in global memory ------------------------------------------------------------------

HF_DEVICE void store_element(void* to, long long at, float x) {
  if constexpr (Spec::element == ElementType::f32) {
    static_cast<float*>(to)[at] = x;
  } else if constexpr (Spec::element == ElementType::f16) {
    static_cast<u16*>(to)[at] = static_cast<u16>(pack_f16_nearest(x, 0.0f));
  } else {
    static_cast<u16*>(to)[at] = static_cast<u16>(pack_bf16_nearest(x, 0.0f));
  }
}

HF_DEVICE void add_element(FloatQuad& quad, int i, Address row, int at) {
  quad[i] = load_at<float>(row + static_cast<Address>(at * 4));
}
HF_DEVICE void add_element(HalfQuad& quad, int i, Address row, int at) {
  const u32 word = load_at<u16>(row + static_cast<Address>(at * 2));
  quad[i / 2] |= word << (16 * (i % 2));
}

// Elements dim..dim+3 of a row of kDim; those past its end are 0.
template <int kDim>
HF_DEVICE Quad load_quad(Address row, int dim) {
  Quad quad = {};
  if constexpr (Spec::aligned && kDim % 4 == 0) {
    if (dim < kDim) quad = load_at<Quad>(row + static_cast<Address>(dim * kElementBytes));
  } else {
    HF_UNROLL
    for (int i = 0; i < 4; i++) {
      if (dim + i < kDim) add_element(quad, i, row, dim + i);
    }
  }
  return quad;
}

// A tile of rows in global memory, of which those from `end` on are 0.
struct TileRows {
  Address base;  // of row 0
  long long stride;
  int end;
  HF_MEMBER bool exists(int row) const { return row < end; }
  HF_MEMBER Address address(int row) const {
    return base + static_cast<Address>(row * stride * kElementBytes);
  }
};

HF_DEVICE TileRows tile_rows(const char* base, const RowStrides& stride, int first, int end) {
  return {address_of(base) + static_cast<Address>(first * stride.seq * kElementBytes), stride.seq,
          end - first};
}

// Dims dim..dim+kDims-1 of kRows rows into shared memory.
template <int kThreads, int kDim, int kRows, int kDims, class Tile>
HF_DEVICE void load_tile(char* shared, int pitch, const Tile& rows, int dim) {
  constexpr int kQuads = kDims / 4;
  for (int n = thread_id(); n < kRows * kQuads; n += kThreads) {
    const int row = n / kQuads, column = n % kQuads * 4;
    Quad quad = {};
    if (rows.exists(row)) quad = load_quad<kDim>(rows.address(row), dim + column);
    *reinterpret_cast<Quad*>(shared + row * pitch + column * kElementBytes) = quad;
  }
}

}  // namespace hipflash
