#include "jit/code_provider.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cache/store.h"
#include "core/fail.h"
#include "core/log.h"
#include "jit/compile_pool.h"
#include "jit/compiler_health.h"
#include "jit/fork_local.h"
#include "jit/lru.h"
#include "jit/source.h"

namespace hipflash::jit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRememberedKeys = 16384;

// A Spec with its source text's hash: everything but the text itself, which only a compile needs.
struct Keyed {
  cache::KeyInputs inputs;
  std::string key;
  // The same kernel for the architecture without its feature flags, which runs whatever they are:
  // so is what was made for "gfx942" good for "gfx942:sramecc+:xnack-". Empty key: there are none.
  cache::KeyInputs plain_inputs;
  std::string plain_key;
};

std::string describe(const Spec& spec) {
  return fmt::format("{} for {}{}{}", spec.family, spec.arch, spec.label.empty() ? "" : ": ",
                     spec.label);
}

// What makes two Specs equal, as text.
std::string joined(const Spec& spec) {
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

cache::Prebuilt::Sources sources_of(const ProviderOptions& options) {
  cache::Prebuilt::Sources sources;
  sources.packs = options.packs;
  sources.paths.assign(options.prebuilt.begin(), options.prebuilt.end());
  sources.installed.assign(options.installed.begin(), options.installed.end());
  sources.trust = options.trust;
  return sources;
}

std::vector<std::byte> to_bytes(const cache::Bytes& code) {
  const auto* const begin = reinterpret_cast<const std::byte*>(code.data());
  return {begin, begin + code.size()};
}

cache::ByteView to_view(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
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
  std::promise<CodeObject> promise;
  const std::shared_future<CodeObject> future{promise.get_future().share()};

 private:
  std::atomic_flag claimed_ = ATOMIC_FLAG_INIT;
};

struct Counters {
  std::atomic<std::uint64_t> memory_hits{0}, disk_hits{0}, prebuilt_hits{0}, compiles{0},
      failures{0}, evictions{0}, compile_us{0};
};

cache::Directory directory_of(const ProviderOptions& options) {
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
    const bool writable = store && store->writable();
    const std::string memo = writable ? store->path().string() : "";
    for (const auto kind : {CompilerKind::host, CompilerKind::hiprtc, CompilerKind::nvrtc}) {
      compilers[static_cast<std::size_t>(kind)] = std::make_unique<CompilerHealth>(
          make_compiler(kind, options.mode, memo), options.mode != CompileMode::never);
    }
  }

  CompilerHealth& compiler(CompilerKind kind) { return *compilers[static_cast<std::size_t>(kind)]; }

  std::array<std::unique_ptr<CompilerHealth>, 3> compilers;
  Lru<std::string, const Keyed> keys;  // by joined() and the compiler's identity
  Lru<std::string, const CodeObject> memory;
  std::optional<cache::Store> store;
  cache::Prebuilt prebuilt;
  std::mutex mutex;  // guards flights and refused
  std::map<std::string, std::shared_ptr<Flight>> flights;
  std::set<std::string> refused;  // keys whose prebuilt objects a device would not load
  CompilePool pool;
};

}  // namespace

class CodeProvider::Impl {
 public:
  explicit Impl(ProviderOptions options)
      : options_(std::move(options)), state_([this] { return std::make_unique<State>(options_); }) {
    if (!options_.source) options_.source = source_text;
  }

  CodeObject get(const Spec& spec) {
    State& state = *state_;
    const Keyed keyed = identify(state, spec);
    if (auto hit = from_memory(state, keyed.key)) return *std::move(hit);
    const auto [flight, hit] = join(state, spec, keyed);
    if (hit) return *hit;
    if (flight->claim()) {
      run(state, *flight);
      return flight->future.get();
    }
    CodeObject shared = flight->future.get();
    shared.tier = Tier::memory;
    shared.compile_ms = 0.0;
    ++counters_.memory_hits;
    return shared;
  }

  std::shared_future<CodeObject> get_async(const Spec& spec) {
    State& state = *state_;
    std::promise<CodeObject> ready;
    try {
      const Keyed keyed = identify(state, spec);
      if (auto hit = from_memory(state, keyed.key)) {
        ready.set_value(*std::move(hit));
        return ready.get_future().share();
      }
      const auto [flight, hit] = join(state, spec, keyed);
      if (hit) {
        ready.set_value(*hit);
        return ready.get_future().share();
      }
      if (!flight->asked_ahead.exchange(true)) {
        state.pool.submit([this, &state, flight = flight] {
          if (flight->claim()) run(state, *flight);
        });
      }
      return flight->future;
    } catch (...) {
      ready.set_exception(std::current_exception());
      return ready.get_future().share();
    }
  }

  std::optional<Tier> find(const Spec& spec) {
    State& state = *state_;
    const Keyed keyed = identify(state, spec);
    if (state.memory.find(keyed.key)) return Tier::memory;
    const bool refused = is_refused(state, keyed.key);
    if (on_disk(state, keyed, refused)) return Tier::disk;
    if (!refused && in_prebuilt(state, keyed)) return Tier::prebuilt;
    if (options_.mode == CompileMode::never || options_.strict || sealed_ ||
        keyed.inputs.compiler == kNoCompiler || state.compiler(spec.compiler).trouble(spec.arch)) {
      return std::nullopt;
    }
    return Tier::compiled;
  }

  std::string key(const Spec& spec) { return identify(*state_, spec).key; }
  cache::KeyInputs key_inputs(const Spec& spec) { return identify(*state_, spec).inputs; }

  std::vector<cache::Prebuilt::Document> tuning_documents() { return state_->prebuilt.documents(); }

  void evict(const std::string& key) {
    State& state = *state_;
    state.memory.erase(key);
    if (state.store) state.store->evict(key, "the device would not load it");
    const std::scoped_lock lock(state.mutex);
    state.refused.insert(key);
    ++counters_.evictions;
  }

  void seal() noexcept { sealed_ = true; }
  bool sealed() const noexcept { return sealed_; }

  CompilerState compiler_state(CompilerKind kind) {
    CompilerState found;
    try {
      const Identity identity = state_->compiler(kind).identify();
      found.available = true;
      found.description = identity.description;
      found.identity = identity.identity;
    } catch (const Error& error) {
      found.trouble = error.what();
    }
    return found;
  }

  ProviderCounters counters() const {
    return {counters_.memory_hits,
            counters_.disk_hits,
            counters_.prebuilt_hits,
            counters_.compiles,
            counters_.failures,
            counters_.evictions,
            static_cast<double>(counters_.compile_us) / 1000.0};
  }

  const ProviderOptions& options() const noexcept { return options_; }

 private:
  static constexpr const char* kNoCompiler = "none";

  // Assembling and hashing the text costs more than finding code in memory, so keys are
  // remembered: a Spec has one text as long as the process lives.
  Keyed identify(State& state, const Spec& spec) {
    std::string compiler = kNoCompiler;  // one may be installed while we run
    try {
      compiler = state.compiler(spec.compiler).identify().identity;
    } catch (const Error& error) {
      log(LogLevel::debug, "{}: {}", describe(spec), error.what());
    }
    const std::string name = joined(spec) + '\0' + compiler;
    if (const auto known = state.keys.find(name)) return *known;
    Keyed keyed;
    cache::KeyInputs& inputs = keyed.inputs;
    inputs.family = spec.family;
    inputs.source_hash = cache::hash_hex(options_.source(spec));
    inputs.prologue = spec.facts;
    inputs.options = spec.options;
    inputs.arch = spec.arch;
    inputs.abi = static_cast<std::uint32_t>(kLauncherAbi);
    inputs.compiler = std::move(compiler);
    keyed.key = cache::key_of(inputs);
    if (const std::size_t flags = spec.arch.find(':'); flags != std::string::npos) {
      keyed.plain_inputs = inputs;
      keyed.plain_inputs.arch.resize(flags);
      keyed.plain_key = cache::key_of(keyed.plain_inputs);
    }
    state.keys.put(name, std::make_shared<const Keyed>(keyed), 0);
    return keyed;
  }

  std::optional<CodeObject> from_memory(State& state, const std::string& key) {
    const auto held = state.memory.find(key);
    if (!held) return std::nullopt;
    ++counters_.memory_hits;
    CodeObject copy = *held;
    copy.tier = Tier::memory;
    copy.compile_ms = 0.0;
    return copy;
  }

  // The flight of this key, or the object if a flight landed in the meantime.
  std::pair<std::shared_ptr<Flight>, std::optional<CodeObject>> join(State& state, const Spec& spec,
                                                                     const Keyed& keyed) {
    const std::scoped_lock lock(state.mutex);
    if (auto hit = from_memory(state, keyed.key)) return {nullptr, std::move(hit)};
    auto& flight = state.flights[keyed.key];
    if (!flight) flight = std::make_shared<Flight>(spec, keyed);
    return {flight, std::nullopt};
  }

  void run(State& state, Flight& flight) {
    const std::string& key = flight.keyed.key;
    try {
      CodeObject found = search(state, flight);
      state.memory.put(key, std::make_shared<const CodeObject>(found), found.bytes.size());
      forget(state, key);
      flight.promise.set_value(std::move(found));
    } catch (...) {
      forget(state, key);
      flight.promise.set_exception(std::current_exception());
    }
  }

  static void forget(State& state, const std::string& key) {
    const std::scoped_lock lock(state.mutex);
    state.flights.erase(key);
  }

  static bool is_refused(State& state, const std::string& key) {
    const std::scoped_lock lock(state.mutex);
    return state.refused.contains(key);
  }

  // `refused`: a device would not load what is stored for this key.
  static std::optional<cache::Entry> on_disk(State& state, const Keyed& keyed, bool refused) {
    if (!state.store) return std::nullopt;
    if (auto entry = state.store->find(keyed.key)) return entry;
    if (keyed.plain_key.empty() || refused) return std::nullopt;
    return state.store->find(keyed.plain_key);
  }

  static std::optional<cache::Prebuilt::Match> in_prebuilt(State& state, const Keyed& keyed) {
    if (auto match = state.prebuilt.find(keyed.inputs)) return match;
    if (keyed.plain_key.empty()) return std::nullopt;
    return state.prebuilt.find(keyed.plain_inputs);
  }

  std::optional<CodeObject> from_disk(State& state, const Flight& flight) {
    const Keyed& keyed = flight.keyed;
    const auto entry = on_disk(state, keyed, is_refused(state, keyed.key));
    if (!entry) return std::nullopt;
    ++counters_.disk_hits;
    log(LogLevel::debug, "{}: found in {}", describe(flight.spec), state.store->path().string());
    return CodeObject{keyed.key, to_bytes(entry->code), Tier::disk, 0.0};
  }

  CodeObject search(State& state, const Flight& flight) {
    const Keyed& keyed = flight.keyed;
    if (auto found = from_disk(state, flight)) return *std::move(found);
    if (!is_refused(state, keyed.key)) {
      if (const auto match = in_prebuilt(state, keyed)) {
        ++counters_.prebuilt_hits;
        log(LogLevel::debug, "{}: prebuilt in {}", describe(flight.spec), match->file);
        return {keyed.key, to_bytes(match->entry.code), Tier::prebuilt, 0.0};
      }
    }
    check_may_compile(state, flight);
    cache::FileLock lock;
    if (state.store && state.store->writable()) {
      const auto wait = std::chrono::duration<double>(options_.limits.seconds);
      lock =
          state.store->lock(keyed.key, std::chrono::duration_cast<std::chrono::milliseconds>(wait));
      if (!lock.held()) {
        log(LogLevel::debug, "{}: compiling without the lock of its key: {}", describe(flight.spec),
            lock.reason());
      }
      if (auto found = from_disk(state, flight)) return *std::move(found);
    }
    return compile(state, flight);
  }

  CodeObject compile(State& state, const Flight& flight) {
    const Spec& spec = flight.spec;
    CompileJob job;
    job.compiler = spec.compiler;
    job.source = options_.source(spec);
    job.arch = spec.arch;
    job.options = spec.options;
    job.label = describe(spec);
    job.limits = options_.limits;
    CodeObject made;
    made.key = flight.keyed.key;
    const auto start = Clock::now();
    try {
      made.bytes = state.compiler(spec.compiler).compiler().compile(job);
    } catch (const Error& error) {
      ++counters_.failures;
      if (error.code() != ErrorCode::CompileFailed || state.compiler(spec.compiler).works(job)) {
        throw;
      }
      throw missing(state, flight, ErrorCode::CompileFailed, error.what(), error.log());
    } catch (...) {
      ++counters_.failures;
      throw;
    }
    made.compile_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    ++counters_.compiles;
    counters_.compile_us += static_cast<std::uint64_t>(made.compile_ms * 1000.0);
    log(LogLevel::info, "{}: compiled in {:.0f} ms, {} bytes", job.label, made.compile_ms,
        made.bytes.size());
    if (state.store && state.store->writable()) {
      try {
        state.store->put({flight.keyed.inputs, spec.label}, to_view(made.bytes));
      } catch (const Error& error) {
        log(LogLevel::warn, "{}: not cached: {}", job.label, error.what());
      }
    }
    return made;
  }

  void check_may_compile(State& state, const Flight& flight) const {
    const char* reason = nullptr;
    if (options_.mode == CompileMode::never) {
      reason = "HIPFLASH_COMPILE=never forbids compiling it";
    } else if (sealed_) {
      reason = "its Context is sealed";
    } else if (options_.strict && !flight.asked_ahead) {
      reason = "HIPFLASH_STRICT=1 forbids compiling it now; prefetch it at start-up";
    }
    if (reason) throw missing(state, flight, ErrorCode::NotSupported, reason);
    CompilerHealth& compiler = state.compiler(flight.spec.compiler);
    try {
      compiler.identify();
    } catch (const Error& error) {
      throw missing(state, flight, ErrorCode::CompileFailed, error.what(), error.log());
    }
    if (const auto trouble = compiler.trouble(flight.spec.arch)) {
      throw missing(state, flight, ErrorCode::CompileFailed, trouble->what(), trouble->log());
    }
  }

  static MissingCode missing(State& state, const Flight& flight, ErrorCode code,
                             const std::string& reason, const std::string& words = {}) {
    std::string text =
        fmt::format("{}: no compiled code is in the cache or prebuilt (key {}), and {}",
                    describe(flight.spec), flight.keyed.key, reason);
    for (const auto& refusal : state.prebuilt.refused()) {
      text += fmt::format("; {} is not used: {}", refusal.path, refusal.reason);
    }
    return {code, text, words};
  }

  ProviderOptions options_;
  Counters counters_;
  std::atomic<bool> sealed_{false};
  ForkLocal<State> state_;
};

CodeProvider::CodeProvider(ProviderOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CodeProvider::~CodeProvider() = default;
CodeObject CodeProvider::get(const Spec& spec) {
  return impl_->get(spec);
}
std::shared_future<CodeObject> CodeProvider::get_async(const Spec& spec) {
  return impl_->get_async(spec);
}
std::optional<Tier> CodeProvider::find(const Spec& spec) {
  return impl_->find(spec);
}
std::string CodeProvider::key(const Spec& spec) {
  return impl_->key(spec);
}
cache::KeyInputs CodeProvider::key_inputs(const Spec& spec) {
  return impl_->key_inputs(spec);
}
std::vector<cache::Prebuilt::Document> CodeProvider::tuning_documents() {
  return impl_->tuning_documents();
}
void CodeProvider::evict(const std::string& key) {
  impl_->evict(key);
}
void CodeProvider::seal() noexcept {
  impl_->seal();
}
bool CodeProvider::sealed() const noexcept {
  return impl_->sealed();
}
CompilerState CodeProvider::compiler_state(CompilerKind kind) {
  return impl_->compiler_state(kind);
}
ProviderCounters CodeProvider::counters() const {
  return impl_->counters();
}
const ProviderOptions& CodeProvider::options() const noexcept {
  return impl_->options();
}

}  // namespace hipflash::jit
