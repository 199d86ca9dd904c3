// append_kv() and merge_partials() in float64, held against what they left in memory. All pointers
// are memory of the host.
#pragma once

#include <string>

#include "common/append_args.h"
#include "common/merge_args.h"
#include "hipflash/tensor.h"

namespace hipflash::verify {

// `before` points to what was read, as it was before the call, `after` to what was written. What is
// wrong first, with its place; empty: all is right. Rows that no place was formed for are not
// looked at.
std::string wrong_append(const AppendArgs& before, const AppendArgs& after, DType dtype);
std::string wrong_merge(const MergeArgs& before, const MergeArgs& after, DType dtype,
                        DType part_dtype);

}  // namespace hipflash::verify
