/// \file
/// Appending new keys and values to a cache that attention_forward() reads.
///
/// ```
/// hipflash::AppendOptions options;
/// options.cache.lengths = lengths;               // positions in use before, int32, on the device
/// options.paged = {block_table, batch, columns};  // as for attention_forward(); or a dense cache
/// options.rotary = {cos, sin, hipflash::DType::f32, 128, max_positions};
/// options.q = q; options.q_out = q;               // rotated too, here in place
/// options.new_lengths = next_lengths;
/// hipflash::append_kv(ctx, k_new, v_new, k_cache, v_cache, options, stream);
/// ```
#pragma once

#include <cstdint>

#include "hipflash/attention.h"
#include "hipflash/context.h"
#include "hipflash/tensor.h"

namespace hipflash {

/// Rotary position embedding (Su et al. 2021): pair (x, y) of a row at position p becomes
/// (x cos − y sin, x sin + y cos), with cos and sin of row p of the tables. Computed in f32.
struct Rotary {
  const void* cos = nullptr;    ///< (positions, dim / 2); null: no rotation.
  const void* sin = nullptr;    ///< Likewise.
  DType dtype = DType::f32;     ///< Of both tables: f32, or the type of the keys.
  std::int64_t dim = 0;         ///< Elements of a row that turn, even, the first ones; 0: all.
  std::int64_t positions = 0;   ///< Rows of the tables.
  std::int64_t row_stride = 0;  ///< Elements between rows of both tables; 0: dim / 2.
  bool interleaved = false;     ///< Pairs are (2i, 2i + 1); else (i, i + dim / 2).
};

/// Everything about an append besides the new rows and the cache.
struct AppendOptions {
  /// Packed new rows (and queries): sequence b owns rows cu[b] to cu[b + 1] - 1 of tensors whose
  /// `batch` is 1; null: k_new has `batch` sequences of `seq` rows.
  const void* cu_seqlens = nullptr;
  bool offsets_are_64bit = false;  ///< int64 instead of int32 offsets.
  std::int64_t batch = 0;          ///< Sequences of packed rows; else k_new.batch counts.

  /// `lengths` are the positions in use before: new row i of sequence b goes to position
  /// lengths[b] + i, which is its position for the rotation too; null: 0 for all. `left_padding`
  /// is part of the lengths and not looked at.
  KvCache cache;
  PagedKv paged;
  Rotary rotary;

  /// Queries at the positions of the new keys, to be rotated into q_out; without data: none. They
  /// may be the same tensor; else q_out must lie apart from all that the call reads or writes.
  Tensor q, q_out;

  /// Lengths afterwards, one int32 per sequence; null: not wanted. Must lie apart too, also from
  /// cache.lengths: other parts of the launch still read those.
  std::int32_t* new_lengths = nullptr;
};

/// Writes k_new and v_new behind what a cache holds, in one launch.
///
/// Shapes: k_new (batch, seq, heads_kv, dim), v_new (batch, seq, heads_kv, value_dim); k_cache and
/// v_cache (slots, capacity, heads_kv, ...), or with pages (pages, positions per page, ...). All
/// share one dtype. Sequences must not share the slots or pages that they write to. What is not
/// rotated is copied bit for bit.
///
/// Lengths, slots, table entries and offsets that cannot be right (a cache or table that is too
/// small for the new rows among them) write nothing: on the CPU the call throws before anything is
/// written; on a GPU the rows of that sequence (of that page, for an entry of the table; with wrong
/// offsets perhaps of its neighbours too) are left out, its rotated queries become NaN, and
/// Context::take_fault() tells.
///
/// The first call of its kind may compile, so while `stream` records a graph it is an error: make
/// one such call before.
///
/// \throws Error InvalidArgument naming the argument and the rule; CompileFailed, LaunchFailed.
HIPFLASH_EXPORT void append_kv(Context& ctx, const Tensor& k_new, const Tensor& v_new,
                               const Tensor& k_cache, const Tensor& v_cache,
                               const AppendOptions& options = {}, Stream stream = {});

/// Which kernel append_kv() takes and where it is, without compiling or running anything.
HIPFLASH_EXPORT Explanation explain_append_kv(Context& ctx, const Tensor& k_new,
                                              const Tensor& v_new, const Tensor& k_cache,
                                              const Tensor& v_cache,
                                              const AppendOptions& options = {});

}  // namespace hipflash
