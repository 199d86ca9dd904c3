// The way from a Spec to its code object: memory, user cache, prebuilt files, compiler; prebuilt
// files before the user cache while the compiler is not known yet.
//
// Keys of code hold who compiled it. What is stored beside the library or in packs serves whoever
// that was, so no compiler is asked what it is before something is found to be missing there, and
// none at all where compiling is off.
//
// One compile per key, whoever asks: threads of this process share a future, processes share the
// user cache and a file lock per key. Thread-safe. Works in a child after fork: what the parent had
// under way is forgotten there and made again if asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/prebuilt.h"
#include "hipflash/error.h"
#include "jit/compiler.h"
#include "jit/spec.h"

namespace hipflash::jit {

struct ProviderOptions {
  std::string cache_dir;  // user cache; empty: none
  std::uint64_t cache_max_bytes = kDefaultCacheBytes;
  std::uint64_t cache_max_entries = kDefaultCacheEntries;
  std::uint64_t memory_max_bytes = std::uint64_t{64} << 20;  // code objects kept in memory
  // Where prebuilt code is looked for, in order of preference, read-only.
  std::vector<std::shared_ptr<const cache::Pack>> packs;  // open already
  std::vector<std::string> prebuilt;                      // folders, or pack files
  std::vector<std::string> installed;                     // likewise, that came with the library
  cache::PackTrust trust;                                 // whose packs are taken
  CompileMode mode = CompileMode::automatic;
  CompileLimits limits;
  unsigned threads = 0;  // for get_async; 0: one per processor
  // Spec to source text; another one than source_text() only in tests.
  std::function<std::string(const Spec&)> source;
  bool strict = false;  // get() never compiles, only get_async() does

  // For making code: what was made before and elsewhere does not count.
  void forget_prebuilt() {
    packs.clear();
    prebuilt.clear();
    installed.clear();
  }
};

// There is no code of a spec, and none can be made now: compiling is off, or there is no compiler
// that works. Not thrown when a compiler refuses a kernel's text.
class MissingCode : public Error {
 public:
  using Error::Error;
};

// What the environment says: HIPFLASH_CACHE_DIR (or the XDG default), HIPFLASH_CACHE_MAX,
// HIPFLASH_PREBUILT, HIPFLASH_TRUSTED_KEYS, HIPFLASH_COMPILE, HIPFLASH_COMPILE_TIMEOUT,
// HIPFLASH_STRICT.
ProviderOptions provider_options_from_settings();

// Counted since the provider was made, in this process.
struct ProviderCounters {
  std::uint64_t memory_hits = 0;
  std::uint64_t disk_hits = 0;
  std::uint64_t prebuilt_hits = 0;
  std::uint64_t compiles = 0;
  std::uint64_t failures = 0;   // compiles that threw
  std::uint64_t evictions = 0;  // entries dropped because they would not load
  double compile_ms = 0.0;      // sum
};

// A compiler as `info` shows it.
struct CompilerState {
  bool available = false;
  std::string description;  // when available
  std::string identity;     // when available
  std::string trouble;      // when not: why
};

class CodeProvider {
 public:
  explicit CodeProvider(ProviderOptions options);
  ~CodeProvider();  // waits for compiles that are running
  CodeProvider(const CodeProvider&) = delete;
  CodeProvider& operator=(const CodeProvider&) = delete;

  // The code object, compiled on this thread if need be. Throws Error(CompileFailed) with the log;
  // MissingCode(NotSupported) when compiling is switched off (mode never, strict, sealed), and
  // MissingCode(CompileFailed) when there is no compiler that works, naming the spec.
  CodeObject get(const Spec& spec);

  // The same in the background. A later get() of the same spec takes over a job that still waits.
  // Once `stop` is asked for, the compile ends with Error(CompileFailed), also for others who hold
  // this future; a get() goes on with a compile of its own.
  std::shared_future<CodeObject> get_async(const Spec& spec, const std::stop_token& stop = {});

  // Where get() would find it, Tier::compiled meaning that it would compile; empty when it would
  // throw. Neither compiles nor loads anything.
  std::optional<Tier> find(const Spec& spec);

  // Names a Spec in this process, whatever compiler made, or will make, its code. Hex.
  std::string id(const Spec& spec);

  // The key of the code that get() would return. Hex. Without a compiler, what is not stored has
  // "none" as its compiler's identity.
  std::string key(const Spec& spec);

  // What the key of code compiled here is made of; with mode never, where no compiler is asked, its
  // identity may be "none".
  cache::KeyInputs key_inputs(const Spec& spec);

  // The tuning results in packs, in order of preference.
  std::vector<cache::Prebuilt::Document> tuning_documents();

  // Forgets the object of this key, which a device would not load, in memory and in the user cache.
  // Prebuilt objects of that Spec are passed over from then on.
  void evict(const Spec& spec, const std::string& key);

  // From now on a compile is an error, in get_async() too. Cannot be undone.
  void seal() noexcept;
  bool sealed() const noexcept;

  CompilerState compiler_state(CompilerKind kind);
  ProviderCounters counters() const;
  const ProviderOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hipflash::jit
