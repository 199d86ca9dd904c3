// Where a new row of append_kv goes. Lengths, slots and tables are looked at with suspicion:
// what cannot be right is a fault, and no place is formed for it.
#pragma once

#include "common/append_args.h"
#include "common/faults.h"

namespace hipflash {

HF_DEVICE long long append_offset(const AppendArgs& args, int b) {
  return args.offsets_are_64bit ? static_cast<const long long*>(args.cu_seqlens)[b]
                                : static_cast<const int*>(args.cu_seqlens)[b];
}

// The new rows of one sequence and where they start.
struct AppendSequence {
  long long first;  // row number
  int rows, length, slot;
  int fault;
};

HF_DEVICE AppendSequence append_sequence(const AppendArgs& args, int b) {
  AppendSequence one = {static_cast<long long>(b) * args.rows, args.rows, 0, b, kNoFault};
  if (args.cu_seqlens) {
    one.first = append_offset(args, b);
    const long long end = append_offset(args, b + 1);
    if (one.first < 0 || end < one.first || end > args.rows) {
      return {0, 0, 0, 0, kOffsetsFault};
    }
    one.rows = static_cast<int>(end - one.first);
  }
  if (args.lengths) one.length = args.lengths[b];
  if (args.batch_index) one.slot = args.batch_index[b];
  const long long end = static_cast<long long>(one.length) + one.rows;
  if (one.length < 0 || end > args.capacity) one.fault = kLengthFault;
  if (one.slot < 0 || one.slot >= args.slots) one.fault = kSlotFault;
  if (args.rotary_dim > 0 && one.fault == kNoFault && end > args.positions) {
    one.fault = kPositionFault;
  }
  return one;
}

// The sequence that a row is of: the last whose first row is not beyond.
HF_DEVICE int sequence_of_row(const AppendArgs& args, long long row) {
  if (!args.cu_seqlens) return static_cast<int>(row / args.rows);
  int low = 0, high = args.batch - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (append_offset(args, middle) <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

struct AppendPlace {
  long long batch, row;  // of the cache: slot or page, and the row in it
  int fault;
};

HF_DEVICE AppendPlace append_place(const AppendArgs& args, const AppendSequence& one,
                                   int position) {
  if (one.fault != kNoFault) return {0, 0, one.fault};
  if (!args.block_table) return {one.slot, position, kNoFault};
  const int column = position / args.page_size;
  const int page = args.block_table[one.slot * args.block_table_stride + column];
  if (page < 0 || page >= args.pages) return {0, 0, kPageFault};
  return {page, position - column * args.page_size, kNoFault};
}

}  // namespace hipflash
