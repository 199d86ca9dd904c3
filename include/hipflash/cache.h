/// \file
/// The user cache of code objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hipflash/export.h"

namespace hipflash {

/// Where a code object was found.
enum class Tier : int { memory = 0, disk = 1, prebuilt = 2, compiled = 3 };

/// "memory", "disk", "prebuilt" or "compiled".
HIPFLASH_EXPORT const char* to_string(Tier tier) noexcept;

/// Counters of one Context since it was made.
struct CacheStats {
  std::uint64_t memory_hits = 0;
  std::uint64_t disk_hits = 0;
  std::uint64_t prebuilt_hits = 0;
  std::uint64_t compiles = 0;
  std::uint64_t evictions = 0;  ///< Entries found damaged or refused by the device, and removed.
};

/// One entry of the user cache.
struct CacheEntry {
  std::string key;     ///< Hex.
  std::string family;  ///< Kernel family.
  std::string arch;
  std::string label;           ///< For people: dtype, head dimension, features, tile.
  std::uint64_t bytes = 0;     ///< Size on disk.
  std::int64_t last_used = 0;  ///< Seconds since 1970.
};

/// A damaged entry of the user cache.
struct DamagedEntry {
  std::string key;       ///< Hex.
  std::string reason;    ///< What is wrong with it.
  bool removed = false;  ///< False: it cannot be removed, such as a folder of an entry's name.
};

/// What user_cache::verify() found.
struct CacheCheck {
  std::size_t whole = 0;  ///< Entries.
  std::vector<DamagedEntry> damaged;
};

/// The user cache: HIPFLASH_CACHE_DIR, else $XDG_CACHE_HOME/hipflash, else ~/.cache/hipflash.
/// Functions throw Error CacheUnusable if it cannot be opened.
namespace user_cache {

/// The folder, whether it is there or not; "" if no variable names one and there is no HOME. Does
/// not throw CacheUnusable.
HIPFLASH_EXPORT std::string path();
/// Every entry. A damaged one has its key, and "damaged: " and the reason as its label.
HIPFLASH_EXPORT std::vector<CacheEntry> list();
/// Checks every byte of every entry and removes the damaged ones.
HIPFLASH_EXPORT CacheCheck verify();
/// Removes the least recently used entries until at most `max_bytes` remain; returns how many.
HIPFLASH_EXPORT std::size_t prune(std::uint64_t max_bytes);
/// Removes every entry; returns how many.
HIPFLASH_EXPORT std::size_t clear();

}  // namespace user_cache
}  // namespace hipflash
