#include "api/check_append.h"

#include "core/fail.h"

// The kernel's own look at a sequence.
#define HF_DEVICE inline
#include "common/append_place.h"
#undef HF_DEVICE

namespace hipflash::api {
namespace {

[[noreturn]] void refuse(const AppendArgs& args, int b, const AppendSequence& one) {
  switch (one.fault) {
    case kOffsetsFault:
      fail(ErrorCode::InvalidArgument,
           "options.cu_seqlens[{}] = {} and [{}] = {} must not decrease and lie in 0 to {}", b,
           append_offset(args, b), b + 1, append_offset(args, b + 1), args.rows);
    case kSlotFault:
      fail(ErrorCode::InvalidArgument,
           "options.cache.batch_index[{}] = {} must be one of {} slots of the cache", b, one.slot,
           args.slots);
    case kPositionFault:
      fail(ErrorCode::InvalidArgument,
           "options.cache.lengths[{}] = {} and {} new rows need more than the {} positions of "
           "options.rotary",
           b, one.length, one.rows, args.positions);
    default:
      fail(ErrorCode::InvalidArgument,
           "options.cache.lengths[{}] = {} and {} new rows must not be negative nor more than the "
           "{} positions of {}",
           b, one.length, one.rows, args.capacity,
           args.block_table ? "the block table" : "the cache");
  }
}

}  // namespace

void check_append(const AppendArgs& args) {
  for (int b = 0; b < args.batch; ++b) {
    const AppendSequence one = append_sequence(args, b);
    if (one.fault != kNoFault) refuse(args, b, one);
    if (!args.block_table || one.rows == 0) continue;
    const int last = (one.length + one.rows - 1) / args.page_size;
    for (int column = one.length / args.page_size; column <= last; ++column) {
      if (append_place(args, one, column * args.page_size).fault == kNoFault) continue;
      fail(ErrorCode::InvalidArgument,
           "options.paged.block_table[{}][{}] = {} must be one of {} pages", one.slot, column,
           args.block_table[one.slot * args.block_table_stride + column], args.pages);
    }
  }
}

}  // namespace hipflash::api
