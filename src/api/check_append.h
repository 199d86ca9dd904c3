// Lengths and tables of an append whose memory the host can read.
#pragma once

#include "common/attention_args.h"

#include "common/append_args.h"

namespace hipflash::api {

// Throws Error(InvalidArgument) naming the sequence for what would be a fault in the kernel.
void check_append(const AppendArgs& args);

}  // namespace hipflash::api
