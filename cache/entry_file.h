/// \file
/// Reading entry files from folders, with the ownership rule applied to each file.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string_view>

#include "cache/entry.h"
#include "cache/trusted_file.h"

namespace hipflash::cache {

/// Every entry file ends so; its stem in the user's cache is the key.
inline constexpr std::string_view kEntrySuffix = ".hfentry";

template <typename T>
struct FileRead {
  Fault fault = Fault::None;
  Decoded<T> decoded;
  struct stat status {};  ///< Of the file that was opened; zero where none was.
};

/// The whole entry, every byte checked.
FileRead<Entry> read_entry_file(const std::filesystem::path& path, Links links);

/// The header only, without the checksum: for listing and indexing.
FileRead<EntryHeader> read_entry_header(const std::filesystem::path& path, Links links);

/// Marks the file as used now, for least-recently-used eviction. The modification time serves:
/// access times are off on many systems, and no decision about content looks at any time.
void touch_entry_file(const std::filesystem::path& path, const struct stat& status) noexcept;

}  // namespace hipflash::cache
