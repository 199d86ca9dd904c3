/// \file
/// A Problem: everything about one attention call that is not data.
#pragma once

#include <cstdint>

#include "hipflash/tensor.h"

namespace hipflash {

/// Where query i stands among the keys when Sq and Sk differ.
enum class MaskAlignment : int {
  bottom_right = 0,  ///< The last query stands at the last key: i + Sk − Sq. The default.
  top_left = 1,      ///< The first query stands at the first key: i.
};

/// Keys that a query sees around its own position, both sides inclusive; −1 is unbounded.
/// (W − 1, 0) with causal lets exactly W keys count.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;

  friend bool operator==(const Window& a, const Window& b) noexcept {
    return a.left == b.left && a.right == b.right;
  }
};

/// Features of a call that decide which kernel serves it. True means present.
struct Features {
  bool lse = false;
  bool alibi = false;
  bool bias = false;
  bool mask = false;
  bool sinks = false;           ///< NotSupported until built.
  bool varlen = false;          ///< NotSupported until built.
  bool paged_kv = false;        ///< NotSupported until built.
  bool dropout = false;         ///< NotSupported until built.
  bool user_functions = false;  ///< NotSupported until built.

  friend bool operator==(const Features& a, const Features& b) noexcept {
    return a.lse == b.lse && a.alibi == b.alibi && a.bias == b.bias && a.mask == b.mask &&
           a.sinks == b.sinks && a.varlen == b.varlen && a.paged_kv == b.paged_kv &&
           a.dropout == b.dropout && a.user_functions == b.user_functions;
  }
};

/// Everything about one call that is not data. Usually made by make_problem().
///
/// ```
/// hipflash::Problem problem;
/// problem.dtype = hipflash::DType::f16;
/// problem.batch = 1; problem.heads_q = 32; problem.heads_kv = 8;
/// problem.seq_q = problem.seq_k = 4096; problem.head_dim = problem.value_head_dim = 128;
/// problem.causal = true;
/// problem.set_dense_bshd();
/// std::cout << ctx.explain(problem).text();
/// ```
struct HIPFLASH_EXPORT Problem {
  DType dtype = DType::f32;
  std::int64_t batch = 0;
  std::int64_t heads_q = 0;
  std::int64_t heads_kv = 0;
  std::int64_t seq_q = 0;
  std::int64_t seq_k = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_head_dim = 0;

  Strides q, k, v, out;  ///< In elements.
  Strides lse;           ///< Of (batch, query, head), in elements.
  /// Every row of q, k, v and out starts on a multiple of 16 bytes. False is always right; true
  /// lets kernels use wide accesses and is checked when a plan runs.
  bool aligned = false;

  float scale = 0.0f;  ///< The factor itself: 1/√dim is already filled in.
  bool causal = false;
  MaskAlignment alignment = MaskAlignment::bottom_right;
  Window window;
  float softcap = 0.0f;

  Features features;
  std::int64_t alibi_batch_stride = 0;
  std::int64_t alibi_head_stride = 1;
  DType bias_dtype = DType::f32;
  ScoreStrides bias;
  ScoreStrides mask;

  /// Fills the strides (of the LSE too) for dense (batch, seq, heads, dim) tensors, marks them
  /// aligned if their rows are, and sets scale to 1/√head_dim if it is 0.
  void set_dense_bshd() noexcept;
};

HIPFLASH_EXPORT bool operator==(const Problem& a, const Problem& b) noexcept;
inline bool operator!=(const Problem& a, const Problem& b) noexcept {
  return !(a == b);
}

/// The data of one call. Device memory on a GPU. Pointers of absent features stay null.
struct TensorPointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  const void* bias = nullptr;
  const void* mask = nullptr;
  const float* alibi = nullptr;
  const float* sinks = nullptr;
};

}  // namespace hipflash
