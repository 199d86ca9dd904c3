// Where the rows of K and V of a block of keys are: at equal distances, or one by one in pages.
#pragma once

#include "cpu/chunk.h"

namespace hipflash {

// What stands for a row that does not exist or that nobody may see.
static const Element kZeroRow[512 + 2 * kLanes] = {};

struct KeyRows {
  const Element* first;
  long long stride;
  const Element* const* list;  // with pages

  __attribute__((always_inline)) const Element* operator[](int i) const {
    if constexpr (Spec::paged) return list[i];
    return first + i * stride;
  }
  // The same rows, counted from row i.
  __attribute__((always_inline)) KeyRows from(int i) const {
    if constexpr (Spec::paged) return {first, stride, list + i};
    return {first + i * stride, stride, list};
  }
};

// Room for the list of a block's rows.
struct RowList {
  const Element* rows[Spec::paged ? max_int(Spec::tile_keys, kFewRowsKeys) : 1];
};

// The page in an entry of a sequence's row of the block table; `args` of arguments_of_sequence().
// An entry that is no page reads page 0 and sets args.fault.
HF_DEVICE int page_at(const AttentionArgs& args, int index) {
  const int page = args.block_table[index];
  if (static_cast<unsigned>(page) < static_cast<unsigned>(args.pages)) return page;
  if (args.fault) *args.fault = kPageFault;
  return 0;
}

// Lists rows of K or V. One division for the first key, then page by page.
static __attribute__((noinline)) void list_rows(const AttentionArgs& args, const void* tensor,
                                                const RowStrides& stride, const Chunk& chunk,
                                                int first_key, int count, const Element** rows) {
  if (!args.block_table) {
    const Element* row = row_of(tensor, stride, chunk.batch, first_key, chunk.head_kv);
    for (int i = 0; i < count; ++i, row += stride.seq) rows[i] = row;
    return;
  }
  const int position = args.first_position + first_key;
  int index = position / args.page_size;
  int offset = position - index * args.page_size;
  for (int i = 0; i < count; ++index, offset = 0) {
    const Element* row = row_of(tensor, stride, page_at(args, index), offset, chunk.head_kv);
    const int end = min_int(count, i + args.page_size - offset);
    for (; i < end; ++i, row += stride.seq) rows[i] = row;
  }
}

// Rows of `count` keys of K (or V, by `tensor` and `stride`) from first_key on.
HF_DEVICE KeyRows rows_of_keys(const AttentionArgs& args, const void* tensor,
                               const RowStrides& stride, const Chunk& chunk, int first_key,
                               int count, RowList& list) {
  if constexpr (Spec::paged) {
    list_rows(args, tensor, stride, chunk, first_key, count, list.rows);
    return {nullptr, 0, list.rows};
  }
  return {row_of(tensor, stride, chunk.batch, first_key, chunk.head_kv), stride.seq, nullptr};
}

}  // namespace hipflash
