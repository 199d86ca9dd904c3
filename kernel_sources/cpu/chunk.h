// A chunk: the rows and keys that one step of an item works on.
#pragma once

#include "cpu/tile.h"  // first: defines the macros that the shared text is written against

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"

namespace hipflash {

// Rows of a pair (batch, key/value head): row r is query r / group, head r % group of the group.
// Few rows may be of several key/value heads, as many of each.
struct Chunk {
  int batch, head_kv, group;
  int heads;  // from head_kv on
  long long first_row;
  int rows;
  int split;
  bool fault;     // the sequence's numbers cannot be right: rows become NaN
  KeyRange keys;  // what the chunk's rows see, cut to one part of the keys
};

HF_DEVICE int query_of(const Chunk& chunk, int row) {
  if constexpr (Spec::chunk_rows == 1) return 0;  // there is no other
  return static_cast<int>((chunk.first_row + row) / chunk.group);
}
HF_DEVICE int head_of(const Chunk& chunk, int row) {
  if constexpr (Spec::chunk_rows == 1) return chunk.head_kv;
  return chunk.head_kv * chunk.group + static_cast<int>((chunk.first_row + row) % chunk.group);
}

// A cell of an array over (batch, head, query, key).
HF_DEVICE long long cell_offset(const CellStrides& stride, const Chunk& chunk, int head, int query,
                                int key) {
  return chunk.batch * stride.batch + head * stride.head + query * stride.query + key * stride.key;
}

template <class T>
HF_DEVICE float cell_value(const void* cells, long long offset) {
  return to_float(static_cast<const T*>(cells)[offset]);
}

HF_DEVICE float bias_at(const AttentionArgs& args, long long offset) {
  if (args.bias_type == ElementType::f32) return cell_value<float>(args.bias, offset);
  if (args.bias_type == ElementType::f16) return cell_value<F16>(args.bias, offset);
  return cell_value<Bf16>(args.bias, offset);
}

// True if some row of the chunk sees the key, elementwise masks included. Slow: for rare questions.
static bool seen_by_any_row(const AttentionArgs& args, const Chunk& chunk, int key) {
  for (int row = 0; row < chunk.rows; ++row) {
    const int query = query_of(chunk, row), head = head_of(chunk, row);
    bool seen = sees(visible_keys(args, query), key);
    if constexpr (Spec::mask) {
      if (args.mask) seen &= args.mask[cell_offset(args.mask_stride, chunk, head, query, key)] != 0;
    }
    if constexpr (Spec::bias) {
      if (args.bias) {
        seen &= bias_at(args, cell_offset(args.bias_stride, chunk, head, query, key)) != -kInfinity;
      }
    }
    if (seen) return true;
  }
  return false;
}

}  // namespace hipflash
