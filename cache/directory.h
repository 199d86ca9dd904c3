/// \file
/// Opening the cache directory, and the rule about whose files are trusted.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace hipflash::cache {

enum class Access {
  ReadWrite,
  ReadOnly,  ///< Existing entries serve; nothing is written.
  None,      ///< Neither; Directory::reason says why.
};

/// A directory that passed the ownership rule, or the reason why the cache does without one.
struct Directory {
  std::filesystem::path path;
  Access access = Access::None;
  std::string reason;  ///< Empty for ReadWrite, else one sentence that names the path and the rule.
};

/// $XDG_CACHE_HOME/hipflash, else ~/.cache/hipflash with ~ from $HOME or the user database. Empty
/// when the user has no home.
std::filesystem::path default_directory();

/// $HOME, else what the user database says; empty when neither is an absolute path.
std::filesystem::path home_folder();

/// Opens `path`, creating it and its missing parents with mode 0700. Never throws: a cache that
/// cannot be used is a normal day. An empty path stands for a missing home.
Directory open_directory(const std::filesystem::path& path);

/// Why code from a file or directory with this status may not be loaded: it must belong to the user
/// or root, and nobody else may write to it. Empty when it is trusted.
std::string untrusted_reason(const struct stat& status);

}  // namespace hipflash::cache
