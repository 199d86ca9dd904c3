/// \file
/// Exact attention, softmax(Q Kᵀ · scale + mask) · V, for any shape, head dimension, mask and
/// layout.
///
/// ```
/// hipflash::Context ctx;
/// auto q = hipflash::Tensor::bshd(q_data, hipflash::DType::f32, 1, 64, 8, 64);
/// ...
/// hipflash::AttentionOptions options;
/// options.causal = true;
/// hipflash::attention_forward(ctx, q, k, v, out, options);
/// ```
///
/// **What is computed.** For query i and key j of one head, in f32:
///
/// 1. score = scale · (q_i · k_j), scale defaulting to 1/√dim
/// 2. softcap: score = cap · tanh(score / cap)
/// 3. ALiBi: score −= slope · |i + Sk − Sq − j|
/// 4. bias: score += bias(b, h, i, j); a bool mask hides the key where it is false
/// 5. causal and window hide keys by position
///
/// then out_i = Σ_j softmax_j(score) · v_j, and lse_i = ln Σ_j exp(score).
///
/// **f32** is computed in f32. On NVIDIA GPUs of the architectures sm_80 and sm_90, matrix units
/// may do each product as three of f16, scaled, with the accuracy of f32 (an element far below the
/// largest of its row of Q, K or V is right to 2^-39 of that), and a block of queries whose result
/// has an infinity or NaN is computed again by multiply-adds: such data means what it means in f32,
/// but costs the time of both. AttentionOptions::strict_f32 asks for f32 products everywhere.
///
/// **Rows that see nothing** give output 0 and LSE −∞ (with a sink, its logit). **NaN**: a NaN in
/// Q, or in a K that some query sees, gives NaN in the rows it reaches; NaN in K or V at positions
/// that no query of the call sees changes nothing; NaN in V at a seen position may reach other
/// queries of that head, because 0 · NaN is NaN in every matrix-product implementation.
///
/// **Determinism.** The same inputs on the same device with the same plan give the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hipflash/context.h"
#include "hipflash/problem.h"
#include "hipflash/tensor.h"

namespace hipflash {

/// Slopes of ALiBi (Press et al. 2021): f32, one per query head or per (batch, query head).
struct Alibi {
  const float* slopes = nullptr;  ///< Null: no ALiBi. Device memory on a GPU.
  std::int64_t batch_stride = 0;  ///< Elements; 0 shares the slopes across the batch.
  std::int64_t head_stride = 1;   ///< Elements.
};

/// Additive bias of shape (batch, heads, queries, keys); stride 0 broadcasts a dimension.
/// −∞ hides a key.
struct Bias {
  const void* data = nullptr;  ///< Null: no bias.
  DType dtype = DType::f32;    ///< f32, or the type of Q.
  ScoreStrides stride;
};

/// Bool mask of shape (batch, heads, queries, keys), one byte an element; 0 hides the key.
struct BoolMask {
  const void* data = nullptr;  ///< Null: no mask.
  ScoreStrides stride;
};

/// Where the log-sum-exp goes: natural logarithm, f32.
struct LseOutput {
  float* data = nullptr;  ///< Null: not wanted.
  Strides stride;         ///< All 0: dense (batch, head, query).
};

/// Sequences of different lengths, packed one after another: sequence b owns the rows cu[b] to
/// cu[b + 1] - 1 of a packed tensor, whose `batch` is 1 and whose `seq` is the number of rows.
/// Sequences may be empty. On a GPU the offsets are device memory that only the kernel reads, so a
/// captured graph works for any lengths.
///
/// ```
/// options.varlen.batch = 3;
/// options.varlen.cu_seqlens_q = options.varlen.cu_seqlens_k = offsets;  // int32: 0, 76, 110, 256
/// auto q = hipflash::Tensor::bshd(data, hipflash::DType::f16, 1, 256, heads, 64);
/// ```
///
/// The LSE of packed queries is dense (head, row) unless LseOutput::stride says otherwise. Bias and
/// mask count queries and keys within their sequence.
struct Varlen {
  std::int64_t batch = 0;              ///< Sequences, where q is packed; else 0 or q.batch.
  const void* cu_seqlens_q = nullptr;  ///< batch + 1 offsets into q and out; null: not packed.
  const void* cu_seqlens_k = nullptr;  ///< batch + 1 offsets into k and v; null: not packed.
  bool offsets_are_64bit = false;      ///< int64 instead of int32 offsets.
  /// The most queries and keys that any sequence has; 0: unknown. A hint for choosing the kernel:
  /// results are right without it.
  std::int64_t max_seq_q = 0;
  std::int64_t max_seq_k = 0;
};

/// Keys and values in a cache that sequences fill differently far. Arrays are of int32, one element
/// per sequence, on the device. Position p of a sequence is row p of its slot: of batch entry b of
/// k and v, or of entry batch_index[b].
struct KvCache {
  const std::int32_t* lengths = nullptr;       ///< Positions in use, padding included; null: all.
  const std::int32_t* batch_index = nullptr;   ///< Slot of each sequence; null: its own number.
  const std::int32_t* left_padding = nullptr;  ///< Positions before the first key; null: none.
};

/// Keys and values in pages: k and v are pools with `batch` = pages and `seq` = positions per page
/// (any number from 1 up). Position p of a sequence is row p % seq of the page that column p / seq
/// of its row of the table names. The row is the sequence's number, or KvCache::batch_index.
struct PagedKv {
  const std::int32_t* block_table =
      nullptr;            ///< (rows, columns) of page numbers; null: no pages, and no other number.
  std::int64_t rows = 0;  ///< Rows of the table; 0: one per sequence.
  std::int64_t columns = 0;     ///< Pages of the longest sequence that the table can hold.
  std::int64_t row_stride = 0;  ///< Elements between rows; 0: `columns`.
};

/// Dropout on the probabilities (Philox 4x32). NotSupported("dropout") until built.
struct Dropout {
  float probability = 0.0f;  ///< 0: none.
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Source text of user score and mask functions. NotSupported("user_functions") until built.
struct UserFunctions {
  std::string score;  ///< Empty: none.
  std::string mask;
};

/// Everything about a call besides Q, K, V and the output.
struct AttentionOptions {
  std::optional<float> scale;  ///< Default 1/√dim. Any finite value, also 0 and negative.
  bool causal = false;         ///< Same as a window whose right side is 0.
  MaskAlignment alignment = MaskAlignment::bottom_right;  ///< For causal and window.
  Window window;
  float softcap = 0.0f;  ///< 0: none; else positive.
  Alibi alibi;
  Bias bias;
  BoolMask mask;
  LseOutput lse;
  /// Attention sinks: one logit per query head (f32, on the device), joined to the denominator of
  /// the softmax and to the LSE; null: none.
  const float* sinks = nullptr;
  Varlen varlen;
  KvCache cache;
  PagedKv paged;
  /// A sequence gives the same bits alone and inside any batch.
  bool batch_invariant = false;
  /// f32 products are never split into products of smaller types: each is one f32 multiply-add, so
  /// that every element counts with its own 24 bits, however far below others of its row it is.
  /// Slower on NVIDIA's sm_80 and sm_90, without effect for other types and elsewhere. See "f32".
  bool strict_f32 = false;
  Dropout dropout;
  UserFunctions functions;
};

/// Computes attention on the context's device: out = softmax(q kᵀ · scale + mask) v.
///
/// Shapes: q (batch, seq_q, heads_q, dim), k (batch, seq_k, heads_kv, dim),
/// v (batch, seq_k, heads_kv, value_dim), out (batch, seq_q, heads_q, value_dim); heads_q is a
/// multiple of heads_kv (MHA, GQA, MQA); dim and value_dim are 1 to 512; all share one dtype.
/// An empty batch, sequence or head count launches nothing. `out` and the LSE must lie apart from
/// each other and from all that is read: blocks of the launch still read when others write. That is
/// checked against q, k, v, bias and mask as far as it is cheap: of a tensor with gaps only its
/// first element counts.
///
/// The first call for a kind of problem plans and may compile (seconds), so while `stream` records
/// a graph it is an error; later ones find the plan. On a GPU the work is enqueued on `stream` and
/// the call returns; on the CPU it is done on return.
///
/// \throws Error InvalidArgument naming the argument and the rule; NotSupported naming the feature;
///         CompileFailed, LaunchFailed, OutOfMemory.
HIPFLASH_EXPORT void attention_forward(Context& ctx, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const Tensor& out,
                                       const AttentionOptions& options = {}, Stream stream = {});

/// The Problem that attention_forward would solve: for Context::plan, explain and prefetch.
/// Data pointers are only looked at to see whether they are null and how they are aligned.
HIPFLASH_EXPORT Problem make_problem(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& out, const AttentionOptions& options = {});

/// The data pointers of a call, for Plan::run.
HIPFLASH_EXPORT TensorPointers make_pointers(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Tensor& out,
                                             const AttentionOptions& options = {}) noexcept;

}  // namespace hipflash
