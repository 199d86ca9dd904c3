// Ragged calls: sequences of different lengths, packed, in a cache with lengths, or in pages.
//
// A kernel takes one sequence out of such a call as a call of its own with a batch of one
// (arguments_of_sequence), and goes on as if nothing else existed.
//
// Lengths and tables are device memory that nobody has looked at before: whatever they say, no
// address outside the tensors is formed. A sequence whose numbers cannot be right gets
// `SequenceFault` in args.fault, and NaN in its output and LSE.
#pragma once

#include "common/faults.h"
#include "common/search.h"

namespace hipflash {

constexpr int kElementBytes = Spec::element == ElementType::f32 ? 4 : 2;

HF_DEVICE long long sequence_offset(const AttentionArgs& args, const void* offsets, int b) {
  return args.offsets_are_64bit ? static_cast<const long long*>(offsets)[b]
                                : static_cast<const int*>(offsets)[b];
}

// Keys are in pages. General kernels take both kinds of calls.
HF_DEVICE bool in_pages(const AttentionArgs& args) {
  return Spec::paged && (Spec::head_dim != 0 || args.block_table);
}

// p + elements * (size of an element of q, k, v and out).
HF_DEVICE const void* advance(const void* p, long long elements) {
  return static_cast<const char*>(p) + elements * kElementBytes;
}

// p + elements; null stays null. Written so that GPU compilers still see what p points to.
template <class T>
HF_DEVICE T* advance_if_present(T* p, long long elements) {
  return p + (p ? elements : 0);
}

// Sequence b as a call with batch 1 (use batch index 0 with the result). Sets `fault` where the
// numbers cannot be right; then the sequence has no keys, and its rows are to become NaN; a fault
// in cu_seqlens_q leaves no rows either.
HF_DEVICE AttentionArgs arguments_of_sequence(const AttentionArgs& args, int b, int& fault) {
  AttentionArgs one = args;
  fault = kNoFault;
  one.batch = 1;

  long long first_query = 0;
  if (args.cu_seqlens_q) {
    first_query = sequence_offset(args, args.cu_seqlens_q, b);
    long long end = sequence_offset(args, args.cu_seqlens_q, b + 1);
    if (first_query < 0 || end < first_query || end > args.total_q) {
      fault = kOffsetsFault;
      first_query = end = 0;
    }
    one.seq_q = static_cast<int>(end - first_query);
    one.q = advance(args.q, first_query * args.q_stride.seq);
    one.out = const_cast<void*>(advance(args.out, first_query * args.out_stride.seq));
    one.lse = advance_if_present(args.lse, first_query * args.lse_stride.seq);
    one.partial_out = advance_if_present(args.partial_out, first_query * args.value_head_dim);
    one.partial_lse = advance_if_present(args.partial_lse, first_query);
  } else {
    one.q = advance(args.q, b * args.q_stride.batch);
    one.out = const_cast<void*>(advance(args.out, b * args.out_stride.batch));
    one.lse = advance_if_present(args.lse, b * args.lse_stride.batch);
    const long long rows = static_cast<long long>(b) * args.heads_q * args.partial_seq;
    one.partial_out = advance_if_present(args.partial_out, rows * args.value_head_dim);
    one.partial_lse = advance_if_present(args.partial_lse, rows);
  }
  const int bias_bytes = args.bias_type == ElementType::f32 ? 4 : 2;
  one.bias = advance_if_present(static_cast<const char*>(args.bias),
                                b * args.bias_stride.batch * bias_bytes);
  one.mask = advance_if_present(args.mask, b * args.mask_stride.batch);
  one.alibi = advance_if_present(args.alibi, b * args.alibi_batch_stride);

  long long first_key = 0, keys = args.seq_k;
  if (args.cu_seqlens_k) {
    first_key = sequence_offset(args, args.cu_seqlens_k, b);
    long long end = sequence_offset(args, args.cu_seqlens_k, b + 1);
    if (first_key < 0 || end < first_key || end > args.total_k) {
      fault = kOffsetsFault;
      first_key = end = 0;
    }
    keys = end - first_key;
  }
  const long long capacity = keys;
  if (args.kv_lengths) {
    keys = args.kv_lengths[b];
    if (keys < 0 || keys > capacity) {
      fault = kLengthFault;
      keys = 0;
    }
  }
  int slot = b;
  if (args.kv_batch_index) {
    slot = args.kv_batch_index[b];
    if (slot < 0 || slot >= args.kv_slots) {
      fault = kSlotFault;
      slot = 0;
      keys = 0;
    }
  }
  if (args.kv_left_padding) {
    const int padding = args.kv_left_padding[b];
    if (padding < 0 || padding > keys) {
      if (fault == kNoFault) fault = kLengthFault;
      keys = 0;
    } else {
      first_key += padding;
      keys -= padding;
    }
  }
  if (fault != kNoFault) keys = 0;
  one.seq_k = static_cast<int>(keys);
  if (in_pages(args)) {
    one.block_table = args.block_table + slot * args.block_table_stride;
    one.first_position = static_cast<int>(first_key);
  } else {
    const long long batch = args.cu_seqlens_k ? 0 : slot;
    one.k = advance(args.k, batch * args.k_stride.batch + first_key * args.k_stride.seq);
    one.v = advance(args.v, batch * args.v_stride.batch + first_key * args.v_stride.seq);
  }
  one.alibi_diagonal = one.seq_k - one.seq_q;
  one.diagonal = args.bottom_right ? one.alibi_diagonal : 0;
  return one;
}

// Packed queries: which sequence the tile with this number belongs to, where a query is
// rows_per_query rows. Sequence b owns the numbers from
// (cu[b] - cu[0]) * rows_per_query / tile_rows + b on, which is at least one for each of its tiles
// and needs no length of another sequence; numbers beyond its tiles are idle. There are
// packed_query_tiles(total_q * rows_per_query, batch, tile_rows) numbers in all.
struct PackedTile {
  int sequence;
  int tile;  // of the sequence
};
HF_DEVICE PackedTile packed_tile_of(const AttentionArgs& args, int number, int tile_rows,
                                    int rows_per_query = 1) {
  const auto inside = [&](int b) {
    const long long offset = sequence_offset(args, args.cu_seqlens_q, b);
    return offset < 0 ? 0 : offset > args.total_q ? args.total_q : offset;
  };
  const long long origin = inside(0);
  const auto first_number = [&](int b) {
    const long long rows = inside(b) - origin;  // negative only where offsets cannot be right
    return static_cast<int>((rows > 0 ? rows : 0) * rows_per_query / tile_rows) + b;
  };
  // The search may pass a sequence by whose offsets decrease, so each is looked at here as well.
  if (number < args.batch && args.fault &&
      sequence_offset(args, args.cu_seqlens_q, number + 1) <
          sequence_offset(args, args.cu_seqlens_q, number)) {
    *args.fault = kOffsetsFault;
  }
  const int sequence = last_that(args.batch, [&](int b) { return first_number(b) <= number; });
  return {sequence, number - first_number(sequence)};
}

constexpr long long packed_query_tiles(long long total_q, long long batch, int tile_rows) {
  return total_q / tile_rows + batch;
}

}  // namespace hipflash
