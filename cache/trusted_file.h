/// \file
/// Opening files that code is loaded from, with the ownership rule applied.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "cache/io.h"

namespace hipflash::cache {

/// Whether the last component of a path may be a symbolic link. In the user's cache nothing makes
/// one; folders of shipped files are often assembled from links.
enum class Links { Refuse, Follow };

enum class Fault {
  None,
  Missing,  ///< There is no such file.
  System,   ///< It could not be opened or read; nothing is known about its content.
  Content,  ///< What is there is not an entry or not to be trusted.
};

/// A file open for reading, or why it is not.
struct OpenedFile {
  Fault fault = Fault::None;
  std::string reason;
  io::File file;
  struct stat status {};  ///< Of the file that was opened; zero where none was.
};

/// Opens a regular file that belongs to the user or root and that nobody else may write to.
OpenedFile open_trusted(const std::filesystem::path& path, Links links);

/// Opens a regular file, whoever may have written it: for looking at, not for loading from.
OpenedFile open_regular(const std::filesystem::path& path, Links links);

}  // namespace hipflash::cache
