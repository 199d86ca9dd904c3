/// \file
/// Reading entry files from folders, with the ownership rule applied to each file.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string_view>

#include "cache/entry.h"

namespace hipflash::cache {

/// Every entry file ends so; its stem in the user's cache is the key.
inline constexpr std::string_view kEntrySuffix = ".hfentry";

/// Whether the last component of a path may be a symbolic link. In the user's cache nothing makes
/// one; folders of shipped files are often assembled from links.
enum class Links { Refuse, Follow };

enum class Fault {
  None,
  Missing,  ///< There is no such file.
  System,   ///< It could not be opened or read; nothing is known about its content.
  Content,  ///< What is there is not an entry or not to be trusted.
};

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
