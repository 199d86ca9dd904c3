/// \file
/// Views of memory that the caller owns. hipflash never copies or keeps tensor data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hipflash/export.h"

namespace hipflash {

/// Element types of Q, K, V and the output. All tensors of one call share one type.
/// Accumulation, softmax and LSE are f32. What f32 products are made of, and how that can be
/// chosen, is in attention.h, "f32".
enum class DType : int { f16 = 0, bf16 = 1, f32 = 2 };

/// "f16", "bf16" or "f32".
HIPFLASH_EXPORT const char* to_string(DType dtype) noexcept;

/// Size of one element in bytes.
HIPFLASH_EXPORT std::size_t size_of(DType dtype) noexcept;

/// Distances in elements between neighbours along each dimension. The head dimension itself is
/// contiguous.
struct Strides {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t head = 0;

  friend bool operator==(const Strides& a, const Strides& b) noexcept {
    return a.batch == b.batch && a.seq == b.seq && a.head == b.head;
  }
};

/// A strided view of a (batch, seq, heads, dim) tensor; `dim` is contiguous.
///
/// Any layout is a choice of strides: batch-sequence-head-dim, batch-head-sequence-dim, slices of a
/// packed QKV projection, interleaved heads, stride 0 to repeat. Inputs are only read, although the
/// pointer is not const.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 0;  ///< Number of sequences.
  std::int64_t seq = 0;    ///< Positions per sequence.
  std::int64_t heads = 0;  ///< Heads.
  std::int64_t dim = 0;    ///< Elements per head, 1 to 512.
  Strides stride;

  /// A dense tensor laid out as (batch, seq, heads, dim).
  /// `auto q = Tensor::bshd(ptr, DType::f16, 8, 2048, 16, 128);`
  static Tensor bshd(const void* data, DType dtype, std::int64_t batch, std::int64_t seq,
                     std::int64_t heads, std::int64_t dim) noexcept {
    return {const_cast<void*>(data),
            dtype,
            batch,
            seq,
            heads,
            dim,
            {seq * heads * dim, heads * dim, dim}};
  }

  /// A dense tensor laid out as (batch, heads, seq, dim).
  static Tensor bhsd(const void* data, DType dtype, std::int64_t batch, std::int64_t heads,
                     std::int64_t seq, std::int64_t dim) noexcept {
    return {const_cast<void*>(data),
            dtype,
            batch,
            seq,
            heads,
            dim,
            {heads * seq * dim, dim, seq * dim}};
  }
};

/// Distances in elements along (batch, head, query, key) of a bias or mask. 0 repeats along a
/// dimension.
struct ScoreStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
  std::int64_t key = 0;

  friend bool operator==(const ScoreStrides& a, const ScoreStrides& b) noexcept {
    return a.batch == b.batch && a.head == b.head && a.query == b.query && a.key == b.key;
  }
};

}  // namespace hipflash
