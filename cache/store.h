/// \file
/// The user's cache: one directory of immutable entry files, shared by any number of processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/lock.h"
#include "core/settings.h"

namespace hipflash::cache {

/// Names of files beside the entries: those being written, and notes that may go at any time, such
/// as what a compiler said of itself.
constexpr std::string_view kTempPrefix = "tmp-", kNotePrefix = "compiler-";

struct Limits {
  std::uint64_t max_bytes = kDefaultCacheBytes;
  std::uint64_t max_entries = kDefaultCacheEntries;
};

/// One line of a listing.
struct Listed {
  std::string key;  ///< From the file's name.
  std::uint64_t file_bytes = 0;
  std::chrono::system_clock::time_point last_use;
  std::optional<EntryHeader> header;
  std::string fault;     ///< Why the entry would not be used; empty when it would.
  bool removed = false;  ///< By verify(): the faulty file is not there any more.
};

/// What prune() and clear() did.
struct Removed {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

/// Thread-safe. Every fault of the file system is a miss, and a store that cannot write says so
/// once and goes on.
///
/// ```
/// Store store(open_directory(default_directory()));
/// if (auto entry = store.find(key)) return load(entry->code);
/// FileLock lock = store.lock(key, std::chrono::seconds(60));   // one compile per key
/// if (auto entry = store.find(key)) return load(entry->code);  // somebody else compiled it
/// Bytes code = compile();
/// store.put({inputs, "f16"}, code);                            // false: goes on with its own
/// bytes
/// ```
class Store {
 public:
  /// Logs one warning when `directory` is not ReadWrite.
  explicit Store(Directory directory, Limits limits = {});

  /// The entry with this key. A faulty file is evicted, logged once and reported as a miss.
  std::optional<Entry> find(std::string_view key);

  /// As find(), for the entry with this spec_id_of(), whatever compiler and options made it; of
  /// several the one with the first key. Reads the headers of all entries once, and those of new
  /// ones when the folder has changed.
  std::optional<Entry> find_by_spec(const std::string& spec_id);

  /// Writes an entry under key_of(info.inputs); readers see all of it or nothing. False when it was
  /// not stored, which a caller may ignore: it has the bytes. Prunes to the limits afterwards.
  /// \throws Error(InvalidArgument) like encode().
  bool put(const EntryInfo& info, ByteView code);

  /// Removes an entry that turned out unusable, for example because it would not load. One log
  /// line. False if it is still there.
  bool evict(std::string_view key, std::string_view reason);

  /// The lock that makes one compile per key. Not held: compile privately.
  FileLock lock(std::string_view key, std::chrono::milliseconds wait);

  /// All entries, most recently used first. Reads the headers.
  std::vector<Listed> list() const;

  /// Like list(), reading and checking every byte. Faulty entries are evicted when `evict_faulty`;
  /// `removed` tells which could be.
  std::vector<Listed> verify(bool evict_faulty = false);

  /// Removes least recently used entries until the limits hold, and temporary files of writers
  /// that died. Does nothing while another process prunes.
  Removed prune() { return prune(limits_); }
  Removed prune(const Limits& limits);

  /// Removes all entries and notes, and the lock files that nobody holds.
  Removed clear();

  std::uint64_t total_bytes() const;

  const std::filesystem::path& path() const noexcept { return directory_.path; }
  bool readable() const noexcept { return directory_.access != Access::None; }
  bool writable() const noexcept { return writable_.load(std::memory_order_relaxed); }
  /// Why the store does not read or write; empty when it does both.
  std::string degraded_reason() const;

 private:
  struct Found;
  struct WriteResult {
    const char* step = "";  // what failed, as a sentence's beginning
    int error = 0;          // an errno
  };

  std::filesystem::path entry_path(std::string_view key) const;
  std::vector<Found> scan() const;
  FileLock acquire(const std::string& name, std::chrono::milliseconds wait);
  WriteResult write_entry(const std::string& key, ByteView file);
  std::vector<std::string> keys_of(const std::string& spec_id);
  void remove_stale_temporaries();
  bool remove_faulty(std::string_view key, const struct stat& seen, const std::string& reason);
  void stop_writing(const std::string& reason);
  void log_once(std::string_view key, const std::string& reason);

  Directory directory_;
  Limits limits_;
  std::atomic<bool> writable_;
  mutable std::mutex mutex_;  // guards what follows
  std::string degraded_;
  std::set<std::string, std::less<>> logged_;

  std::mutex index_mutex_;                      // guards what follows
  std::map<std::string, std::string> spec_of_;  // spec ids by key
  struct timespec indexed_ {};                  // the folder's time when spec_of_ was filled
};

}  // namespace hipflash::cache
