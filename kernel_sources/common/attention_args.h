// The run-time arguments of every attention family: filled by the plan, read by the kernels.
//
// This header is part of the kernel text (so it includes nothing) and is also compiled into the
// library, so both sides agree by construction. Changing it changes the ABI: raise
// kLauncherAbi in src/jit/spec.h.
#pragma once

namespace hipflash {

// Distances in elements; the head dimension is contiguous.
struct RowStrides {
  long long batch, seq, head;
};

// Distances in elements along (batch, head, query, key); 0 repeats.
struct CellStrides {
  long long batch, head, query, key;
};

enum class ElementType : int { f16 = 0, bf16 = 1, f32 = 2 };  // same numbers as DType in tensor.h

struct AttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;                 // natural logarithm; null when not wanted
  const void* bias;           // additive, in ElementType bias_type; null when absent
  const unsigned char* mask;  // 0 hides the key; null when absent
  const float* alibi;         // slopes, non-negative by convention; null when absent
  const float* sinks;         // one logit per query head; null when absent

  RowStrides q_stride, k_stride, v_stride, out_stride;
  RowStrides lse_stride;  // of (batch, query, head)
  CellStrides bias_stride, mask_stride;
  long long alibi_batch_stride, alibi_head_stride;

  int batch, heads_q, heads_kv, seq_q, seq_k;
  int head_dim, value_head_dim;
  ElementType bias_type;

  // Query i sees key j when  i + diagonal - window_left <= j <= i + diagonal + window_right.
  // Unbounded sides hold a value so large that the comparison is always true (and never overflows).
  int diagonal, window_left, window_right;
  int alibi_diagonal;  // ALiBi adds -slope * |i + alibi_diagonal - j|; always seq_k - seq_q

  float scale;    // applied to q.k
  float softcap;  // cap * tanh(score / cap); 0 when absent

  // Work split over keys: each split writes its own partial result, merged afterwards.
  // partial_out is f32 (split, batch, head, query, value_head_dim), normalised; partial_lse is
  // (split, batch, head, query), natural logarithm. Both contiguous; unused when splits == 1.
  int splits;
  float* partial_out;
  float* partial_lse;

  int* counter;  // zeroed device word for families that hand out work dynamically; may be null
};

}  // namespace hipflash
