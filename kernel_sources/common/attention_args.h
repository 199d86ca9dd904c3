// The run-time arguments of every attention family: filled by the plan, read by the kernels.
//
// This header is part of the kernel text (so it includes nothing) and is also compiled into the
// library, so both sides agree by construction. To fill a member with something else, without a
// change of this text, is to raise kLauncherAbi in src/jit/spec.h.
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

  // Ragged calls, see sequence.h. Each is null when absent.
  const void* cu_seqlens_q;    // batch + 1 offsets of the sequences in packed q and out (and lse)
  const void* cu_seqlens_k;    // likewise in packed k and v
  const int* kv_lengths;       // keys of each sequence, left padding included
  const int* kv_batch_index;   // slot (batch index in k and v, row of the block table)
  const int* kv_left_padding;  // positions of a sequence before its first key
  const int* block_table;      // page of each page_size positions of a sequence
  int* fault;                  // set to a SequenceFault; null: not wanted

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

  // What arguments_of_sequence() reads. Of packed sequences, seq_q and seq_k above are upper
  // bounds.
  int offsets_are_64bit;   // of cu_seqlens_q and cu_seqlens_k
  int bottom_right;        // diagonal is seq_k - seq_q of each sequence, else 0
  int total_q, total_k;    // rows of packed tensors
  int kv_slots;            // batch entries of dense k and v, or rows of the block table
  int page_size;           // positions per page; 0 without pages
  int pages;               // pages in k and v: stride.batch is from page to page
  int pages_per_sequence;  // columns of the block table
  int first_position;      // position of key 0 in its sequence's pages
  long long block_table_stride;

  // Work split over keys: each split writes its own partial result, merged afterwards.
  // partial_out is f32 (split, partial_batch, head, partial_seq, value_head_dim), normalised, and
  // partial_lse (split, partial_batch, head, partial_seq), natural logarithm and without sinks;
  // both contiguous, unused when splits == 1. Batch and query count as in q: with packed queries
  // partial_batch is 1 and partial_seq is total_q.
  int splits;
  int keys_per_split;  // a multiple of tile_keys; 0: equal shares of what is seen
  int partial_batch, partial_seq;
  float* partial_out;
  float* partial_lse;

  int* counter;  // zeroed device word for families that hand out work dynamically; may be null
};

}  // namespace hipflash
