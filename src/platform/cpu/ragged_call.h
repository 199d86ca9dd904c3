// Cutting up a ragged call whose lengths are on the host.
#pragma once

#include "platform/launch.h"

namespace hipflash::platform {

// Chooses args.splits and the items for the lengths that the call has.
CpuWork cut_ragged_call(AttentionArgs& args, const CpuLaunch& launch);

}  // namespace hipflash::platform
