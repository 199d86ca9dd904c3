// What a CodeProvider holds: names of Specs, searches under way, the tiers and the compilers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cache/store.h"
#include "core/fail.h"
#include "jit/code_provider.h"
#include "jit/compile_pool.h"
#include "jit/compiler_health.h"
#include "jit/lru.h"

namespace hipflash::jit {

inline constexpr std::size_t kRememberedKeys = 16384;

inline constexpr const char* kNoCompiler = "none";

// A Spec with its source text's hash: everything but the text itself, which only a compile needs,
// and but the compiler, which is asked only where what is found depends on it.
struct Keyed {
  cache::KeyInputs inputs;  // compiler: kNoCompiler
  std::string id;           // CodeProvider::id()

  cache::KeyInputs made_by(const std::string& compiler) const {
    cache::KeyInputs made = inputs;
    made.compiler = compiler;
    return made;
  }
};

// The same kernel for the architecture without its feature flags, which runs whatever they are: so
// is what was made for "gfx942" good for "gfx942:sramecc+:xnack-". Empty: there are none.
inline std::optional<cache::KeyInputs> without_flags(cache::KeyInputs inputs) {
  const std::size_t flags = inputs.arch.find(':');
  if (flags == std::string::npos) return std::nullopt;
  inputs.arch.resize(flags);
  return inputs;
}

inline std::string describe(const Spec& spec) {
  return fmt::format("{} for {}{}{}", spec.family, spec.arch, spec.label.empty() ? "" : ": ",
                     spec.label);
}

// What makes two Specs equal, as text.
inline std::string joined(const Spec& spec) {
  std::string text = fmt::format("{}", static_cast<int>(spec.compiler));
  for (const std::string* part : {&spec.family, &spec.arch, &spec.facts}) {
    text += '\0';
    text += *part;
  }
  for (const std::string& option : spec.options) {
    text += '\0';
    text += option;
  }
  return text;
}

inline cache::Prebuilt::Sources sources_of(const ProviderOptions& options) {
  cache::Prebuilt::Sources sources;
  sources.packs = options.packs;
  sources.paths.assign(options.prebuilt.begin(), options.prebuilt.end());
  sources.installed.assign(options.installed.begin(), options.installed.end());
  sources.trust = options.trust;
  return sources;
}

// One search for one key: done by whoever claims it first, its caller or a thread of the pool.
class Flight {
 public:
  Flight(Spec wanted, Keyed name) : spec(std::move(wanted)), keyed(std::move(name)) {}

  ~Flight() {
    if (claim()) {
      promise.set_exception(std::make_exception_ptr(
          Error(ErrorCode::CompileFailed,
                describe(spec) + " was not compiled: its Context was destroyed before")));
    }
  }

  bool claim() noexcept { return !claimed_.test_and_set(); }

  const Spec spec;
  const Keyed keyed;
  std::atomic<bool> asked_ahead{false};  // by get_async(), so that strict allows a compile
  std::stop_token stop;                  // set by whoever claimed it
  std::promise<CodeObject> promise;
  const std::shared_future<CodeObject> future{promise.get_future().share()};

 private:
  std::atomic_flag claimed_ = ATOMIC_FLAG_INIT;
};

inline cache::Directory directory_of(const ProviderOptions& options) {
  if (options.cache_dir.empty()) return {};
  return cache::open_directory(options.cache_dir);
}

// What must not be shared with a parent process. The pool is last: its threads end first.
struct State {
  explicit State(const ProviderOptions& options)
      : keys({kRememberedKeys, SIZE_MAX}),
        memory({SIZE_MAX, options.memory_max_bytes}),
        prebuilt(sources_of(options)),
        pool(options.threads) {
    if (!options.cache_dir.empty()) {
      store.emplace(directory_of(options),
                    cache::Limits{options.cache_max_bytes, options.cache_max_entries});
    }
    const std::string memo = store && store->readable() ? store->path().string() : "";
    for (const auto kind : {CompilerKind::host, CompilerKind::hiprtc, CompilerKind::nvrtc}) {
      compilers[static_cast<std::size_t>(kind)] = std::make_unique<CompilerHealth>(
          make_compiler(kind, options.mode, memo), options.mode != CompileMode::never);
    }
  }

  CompilerHealth& compiler(CompilerKind kind) { return *compilers[static_cast<std::size_t>(kind)]; }

  std::array<std::unique_ptr<CompilerHealth>, 3> compilers;
  Lru<std::string, const Keyed> keys;         // by joined()
  Lru<std::string, const CodeObject> memory;  // by id, as all that follows
  std::optional<cache::Store> store;
  cache::Prebuilt prebuilt;
  std::mutex mutex;  // guards flights and refused
  std::map<std::string, std::shared_ptr<Flight>> flights;
  std::set<std::string> refused;  // whose stored objects a device would not load
  CompilePool pool;
};

}  // namespace hipflash::jit
