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

/// Why replace_file() would refuse `path` now, as far as can be said without writing; else empty.
/// For work that takes long and would be lost.
std::string why_not_replaceable(const std::filesystem::path& path);

}  // namespace hipflash::cache
