// What can be wrong with lengths, offsets and tables that only a kernel sees. Part of the kernel
// text and of the library; it includes nothing.
#pragma once

namespace hipflash {

enum SequenceFault : int {
  kNoFault = 0,
  kOffsetsFault = 1,   // cu_seqlens decrease or reach beyond the packed tensor
  kLengthFault = 2,    // a length is negative, or beyond the cache's capacity or the table's pages
  kSlotFault = 3,      // a batch index outside of the cache
  kPageFault = 4,      // a block table entry outside of the pages
  kPositionFault = 5,  // a position beyond the rotary tables
};

}  // namespace hipflash
