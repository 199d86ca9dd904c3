// The run-time arguments of append_kv, filled by the plan and read by the kernels. Part of
// the kernel text and of the library. When to raise kLauncherAbi: see src/jit/spec.h.
#pragma once

#include "common/attention_args.h"

namespace hipflash {

// New rows are numbered through: row i of sequence b is b * rows + i, or of packed ones
// cu_seqlens[b] + i. It goes to position lengths[b] + i of its sequence's cache.
struct AppendArgs {
  const void *k_new, *v_new;
  void *k, *v;    // the cache
  const void* q;  // queries at the same positions, rotated into q_out; null when absent
  void* q_out;
  const void *cosine, *sine;  // (positions, rotary_dim / 2), of table_type; null when absent

  const void* cu_seqlens;  // batch + 1 offsets of the sequences in packed rows; null: not packed
  const int* lengths;      // positions in use before; null: 0
  const int* batch_index;  // slot of each sequence; null: its own number
  const int* block_table;  // page of each page_size positions of a slot; null: no pages
  int* new_lengths;        // lengths afterwards; null: not wanted
  int* fault;              // set to a SequenceFault; null: not wanted

  RowStrides k_new_stride, v_new_stride, q_stride, q_out_stride;  // of packed rows, batch is 0
  RowStrides k_stride, v_stride;                                  // batch: of a slot, or of a page
  long long table_stride;  // elements between positions of cosine and sine
  long long block_table_stride;

  int batch, rows;  // rows of each sequence; of packed ones all rows
  int heads_q, heads_kv, head_dim, value_head_dim;
  int rotary_dim;          // even, the first of each row; 0: nothing is rotated
  int rotary_interleaved;  // pairs are (2i, 2i + 1), else (i, i + rotary_dim / 2)
  int positions;           // of the rotary tables
  ElementType table_type;  // f32 or that of the tensors
  int capacity;            // positions of a slot
  int slots;               // of the cache, or rows of the block table
  int page_size, pages, pages_per_sequence;
  int offsets_are_64bit;
};

// On the CPU a work item is so many new rows.
constexpr int kAppendRowsPerItem = 8;

}  // namespace hipflash
