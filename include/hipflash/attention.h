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
/// **Rows that see nothing** give output 0 and LSE −∞. **NaN**: a NaN in Q, or in a K that some
/// query sees, gives NaN in the rows it reaches; NaN in K or V at positions that no query of the
/// call sees changes nothing; NaN in V at a seen position may reach other queries of that head,
/// because 0 · NaN is NaN in every matrix-product implementation.
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

/// Ragged batches: sequences packed one after another; `seq` of the tensors is the total length.
/// NotSupported("varlen") until built.
struct Varlen {
  const void* cu_seqlens_q = nullptr;  ///< batch + 1 offsets; null: not ragged.
  const void* cu_seqlens_k = nullptr;
  bool offsets_are_64bit = false;  ///< int64 instead of int32 offsets.
  std::int64_t max_seq_q = 0;      ///< Hint; 0: unknown.
  std::int64_t max_seq_k = 0;
};

/// Keys and values in pages. NotSupported("paged_kv") until built.
struct PagedKv {
  const std::int32_t* block_table = nullptr;  ///< (batch, pages); null: not paged.
  std::int64_t page_size = 0;                 ///< Positions per page.
  std::int64_t block_table_stride = 0;        ///< Elements between the rows of the table.
  const std::int32_t* cache_lengths = nullptr;
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
  const float* sinks = nullptr;  ///< One logit per query head. NotSupported("sinks") until built.
  Varlen varlen;
  PagedKv paged;
  Dropout dropout;
  UserFunctions functions;
};

/// Computes attention on the context's device: out = softmax(q kᵀ · scale + mask) v.
///
/// Shapes: q (batch, seq_q, heads_q, dim), k (batch, seq_k, heads_kv, dim),
/// v (batch, seq_k, heads_kv, value_dim), out (batch, seq_q, heads_q, value_dim); heads_q is a
/// multiple of heads_kv (MHA, GQA, MQA); dim and value_dim are 1 to 512; all share one dtype.
/// An empty batch, sequence or head count launches nothing.
///
/// The first call for a kind of problem plans and may compile (seconds); later ones find the plan.
/// On a GPU the work is enqueued on `stream` and the call returns; on the CPU it is done on return.
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
