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
  bool lse = false;             ///< The log-sum-exp of each row is written.
  bool alibi = false;           ///< Slopes of AttentionOptions::alibi.
  bool bias = false;            ///< AttentionOptions::bias is added to scores.
  bool mask = false;            ///< AttentionOptions::mask hides keys.
  bool sinks = false;           ///< A logit of each head joins the softmax's denominator.
  bool varlen = false;          ///< Packed sequences, in Problem::ragged.
  bool kv_cache = false;        ///< Lengths, batch index or left padding, in Problem::ragged.
  bool paged_kv = false;        ///< Keys and values in pages, in Problem::ragged.
  bool dropout = false;         ///< NotSupported until built.
  bool user_functions = false;  ///< NotSupported until built.

  /// Sequences have lengths of their own.
  bool ragged() const noexcept { return varlen || kv_cache || paged_kv; }

  friend bool operator==(const Features& a, const Features& b) noexcept {
    return a.lse == b.lse && a.alibi == b.alibi && a.bias == b.bias && a.mask == b.mask &&
           a.sinks == b.sinks && a.varlen == b.varlen && a.kv_cache == b.kv_cache &&
           a.paged_kv == b.paged_kv && a.dropout == b.dropout &&
           a.user_functions == b.user_functions;
  }
};

/// How the sequences of a call lie in memory when they are not all as long as the tensors.
/// All zeros: they are.
struct Ragged {
  bool packed_q = false;           ///< Sequences of q and out follow one another (cu_seqlens_q).
  bool packed_k = false;           ///< Likewise k and v (cu_seqlens_k).
  bool offsets_are_64bit = false;  ///< int64 instead of int32 offsets.
  bool lengths = false;            ///< Each sequence says how many keys its cache holds.
  bool batch_index = false;        ///< Each sequence says which slot of the cache is its own.
  bool left_padding = false;       ///< Each sequence says how many positions precede its keys.
  std::int64_t total_q = 0;        ///< Rows of packed q and out.
  std::int64_t total_k = 0;        ///< Rows of packed k and v.
  std::int64_t kv_slots = 0;       ///< Batch entries of the cache, or rows of the block table.
  std::int64_t page_size = 0;      ///< Positions per page; 0: no pages.
  std::int64_t pages = 0;          ///< Pages in k and v; their batch stride is a page's.
  std::int64_t pages_per_sequence = 0;  ///< Columns of the block table.
  std::int64_t block_table_stride = 0;  ///< Elements between rows of the block table.

  friend bool operator==(const Ragged& a, const Ragged& b) noexcept {
    return a.packed_q == b.packed_q && a.packed_k == b.packed_k &&
           a.offsets_are_64bit == b.offsets_are_64bit && a.lengths == b.lengths &&
           a.batch_index == b.batch_index && a.left_padding == b.left_padding &&
           a.total_q == b.total_q && a.total_k == b.total_k && a.kv_slots == b.kv_slots &&
           a.page_size == b.page_size && a.pages == b.pages &&
           a.pages_per_sequence == b.pages_per_sequence &&
           a.block_table_stride == b.block_table_stride;
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
  std::int64_t batch = 0;     ///< Sequences.
  std::int64_t heads_q = 0;   ///< Heads of q and out: a multiple of heads_kv.
  std::int64_t heads_kv = 0;  ///< Heads of k and v.
  std::int64_t seq_q = 0;     ///< Queries of each sequence; of packed ones the most that any has.
  std::int64_t seq_k = 0;     ///< Keys of each sequence; of ragged ones the most that any may have.
  std::int64_t head_dim = 0;  ///< Elements per head of q and k, 1 to 512.
  std::int64_t value_head_dim = 0;  ///< Elements per head of v and out, 1 to 512.

  Strides q, k, v, out;  ///< In elements.
  Strides lse;           ///< Of (batch, query, head), in elements.
  /// Every row of q, k, v and out starts on a multiple of 16 bytes. False is always right; true
  /// lets kernels use wide accesses and is checked when a plan runs.
  bool aligned = false;

  float scale = 0.0f;   ///< The factor itself: 1/√dim is already filled in.
  bool causal = false;  ///< No key after a query's own position is seen.
  MaskAlignment alignment = MaskAlignment::bottom_right;  ///< Which key a query's position is.
  Window window;         ///< Keys around a query's position that it sees.
  float softcap = 0.0f;  ///< c in c·tanh(score / c); 0: none.

  Features features;
  std::int64_t alibi_batch_stride = 0;  ///< Of the slopes, in elements; 0: one set for all.
  std::int64_t alibi_head_stride = 1;   ///< Likewise, from head to head.
  DType bias_dtype = DType::f32;        ///< Type of the bias; f32 or that of q.
  ScoreStrides bias;                    ///< In elements; 0: shared.
  ScoreStrides mask;                    ///< In bytes; 0: shared.

  Ragged ragged;
  /// A sequence gives the same bits alone and in any batch: keys are split at fixed positions.
  bool batch_invariant = false;
  bool strict_f32 = false;  ///< As AttentionOptions::strict_f32; false where dtype is not f32.

  /// Fills the strides (of the LSE too) for dense (batch, seq, heads, dim) tensors, marks them
  /// aligned if their rows are, and sets scale to 1/√head_dim if it is 0.
  void set_dense_bshd() noexcept;
};

HIPFLASH_EXPORT bool operator==(const Problem& a, const Problem& b) noexcept;
inline bool operator!=(const Problem& a, const Problem& b) noexcept {
  return !(a == b);
}

/// The data of one call. Device memory on a GPU. Pointers of absent features stay null. What is
/// written, `out` and `lse`, must lie apart from everything else.
struct TensorPointers {
  const void* q = nullptr;       ///< Problem::dtype; (batch, seq_q, heads_q, head_dim), or packed.
  const void* k = nullptr;       ///< Likewise (batch, seq_k, heads_kv, head_dim), packed or pages.
  const void* v = nullptr;       ///< As k, with value_head_dim.
  void* out = nullptr;           ///< As q, with value_head_dim.
  float* lse = nullptr;          ///< (batch, heads_q, seq_q).
  const void* bias = nullptr;    ///< Problem::bias_dtype; (batch, heads_q, seq_q, seq_k).
  const void* mask = nullptr;    ///< One byte an element, 0 hides; as bias.
  const float* alibi = nullptr;  ///< Slopes, (batch, heads_q).
  const float* sinks = nullptr;  ///< Logits, (heads_q).
  const void* cu_seqlens_q = nullptr;  ///< batch + 1 offsets: int32, or int64 if Ragged says so.
  const void* cu_seqlens_k = nullptr;  ///< Likewise.
  const std::int32_t* kv_lengths = nullptr;       ///< (batch).
  const std::int32_t* kv_batch_index = nullptr;   ///< (batch).
  const std::int32_t* kv_left_padding = nullptr;  ///< (batch).
  const std::int32_t* block_table = nullptr;      ///< (kv_slots, pages_per_sequence) of Ragged.
};

}  // namespace hipflash
