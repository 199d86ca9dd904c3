/// \file
/// Writing a file so that its name stands for the whole of it or for what was there before.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "cache/entry.h"

namespace hipflash::cache {

/// Replaces `path`. A process that is killed meanwhile leaves nothing under any name where the file
/// system has unnamed files (O_TMPFILE), else at most a file whose name begins with ".tmp-".
/// Empty, or why it failed; then nothing has changed.
std::string replace_file(const std::filesystem::path& path, ByteView bytes, mode_t mode);

}  // namespace hipflash::cache
