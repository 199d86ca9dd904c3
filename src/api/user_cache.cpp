#include <chrono>
#include <filesystem>
#include <limits>
#include <utility>

#include "api/context_impl.h"
#include "cache/store.h"
#include "core/fail.h"
#include "hipflash/cache.h"

namespace hipflash::user_cache {
namespace {

// Managing the cache is asking for it: one that cannot be used is an error here, not a degradation.
cache::Store open(bool for_writing) {
  const std::string folder = jit::provider_options_from_settings().cache_dir;
  if (folder.empty()) {
    fail(ErrorCode::CacheUnusable,
         "there is no user cache: neither HIPFLASH_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
  }
  cache::Directory directory = cache::open_directory(folder);
  const bool usable = for_writing ? directory.access == cache::Access::ReadWrite
                                  : directory.access != cache::Access::None;
  if (!usable) {
    fail(ErrorCode::CacheUnusable, "the user cache {} cannot be used: {}", folder,
         directory.reason);
  }
  return cache::Store(std::move(directory),
                      {.max_bytes = std::numeric_limits<std::uint64_t>::max(),
                       .max_entries = std::numeric_limits<std::uint64_t>::max()});
}

std::int64_t unix_seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

std::string path() {
  return jit::provider_options_from_settings().cache_dir;
}

std::vector<CacheEntry> list() {
  std::vector<CacheEntry> entries;
  for (const cache::Listed& listed : open(false).list()) {
    CacheEntry entry;
    entry.key = listed.key;
    if (listed.header) {
      entry.family = listed.header->info.inputs.family;
      entry.arch = listed.header->info.inputs.arch;
      entry.label = listed.header->info.label;
    } else {
      entry.label = "damaged: " + listed.fault;
    }
    entry.bytes = listed.file_bytes;
    entry.last_used = unix_seconds(listed.last_use);
    entries.push_back(std::move(entry));
  }
  return entries;
}

CacheCheck verify() {
  CacheCheck check;
  for (cache::Listed& listed : open(true).verify(/*evict_faulty=*/true)) {
    if (listed.fault.empty()) {
      ++check.whole;
    } else {
      check.damaged.push_back({std::move(listed.key), std::move(listed.fault), listed.removed});
    }
  }
  return check;
}

std::size_t prune(std::uint64_t max_bytes) {
  cache::Limits limits;
  limits.max_bytes = max_bytes;
  limits.max_entries = std::numeric_limits<std::uint64_t>::max();
  return open(true).prune(limits).entries;
}

std::size_t clear() {
  return open(true).clear().entries;
}

}  // namespace hipflash::user_cache
