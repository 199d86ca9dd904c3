// HIPFLASH_RECORD: the problems of a run, appended to a file.
#pragma once

#include <string_view>

#include "hipflash/workload.h"

namespace hipflash::api {

// The end of a line whose writer was killed; the line is to be passed over.
inline constexpr std::string_view kTornMark = " # torn";

// Appends the item to the file that HIPFLASH_RECORD names, unless the file has it. Any number of
// threads and processes may do so at once. A file that cannot be written is one warning.
void record(const WorkloadItem& item) noexcept;

}  // namespace hipflash::api
