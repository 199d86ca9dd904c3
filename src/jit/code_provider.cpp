#include "jit/code_provider.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "core/fail.h"
#include "core/log.h"
#include "jit/fork_local.h"
#include "jit/provider_state.h"
#include "jit/source.h"

namespace hipflash::jit {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::byte> to_bytes(const cache::Bytes& code) {
  const auto* const begin = reinterpret_cast<const std::byte*>(code.data());
  return {begin, begin + code.size()};
}

CodeObject object_of(const cache::Entry& entry, Tier tier) {
  const cache::KeyInputs& inputs = entry.info.inputs;
  return {cache::key_of(inputs), inputs, to_bytes(entry.code), tier, 0.0};
}

cache::ByteView to_view(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

struct Counters {
  std::atomic<std::uint64_t> memory_hits{0}, disk_hits{0}, prebuilt_hits{0}, compiles{0},
      failures{0}, evictions{0}, compile_us{0};
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
    if (auto hit = from_memory(state, keyed.id)) return *std::move(hit);
    const auto [flight, hit] = join(state, spec, keyed);
    if (hit) return *hit;
    if (flight->claim()) {
      run(state, *flight);
      return flight->future.get();
    }
    CodeObject shared;
    try {
      shared = flight->future.get();
    } catch (const Error&) {
      if (!flight->stop.stop_requested()) throw;
      return get(spec);  // whoever had asked for it stopped it
    }
    shared.tier = Tier::memory;
    shared.compile_ms = 0.0;
    ++counters_.memory_hits;
    return shared;
  }

  std::shared_future<CodeObject> get_async(const Spec& spec, const std::stop_token& stop) {
    State& state = *state_;
    std::promise<CodeObject> ready;
    try {
      const Keyed keyed = identify(state, spec);
      if (auto hit = from_memory(state, keyed.id)) {
        ready.set_value(*std::move(hit));
        return ready.get_future().share();
      }
      const auto [flight, hit] = join(state, spec, keyed);
      if (hit) {
        ready.set_value(*hit);
        return ready.get_future().share();
      }
      if (!flight->asked_ahead.exchange(true)) {
        state.pool.submit([this, &state, flight = flight, stop] {
          if (!flight->claim()) return;
          flight->stop = stop;
          run(state, *flight);
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
    if (state.memory.find(keyed.id)) return Tier::memory;
    if (const auto found = stored(state, spec, keyed)) return found->tier;
    if (options_.mode == CompileMode::never || options_.strict || sealed_ ||
        compiler_of(state, spec) == kNoCompiler ||
        state.compiler(spec.compiler).trouble(spec.arch)) {
      return std::nullopt;
    }
    return Tier::compiled;
  }

  std::string id(const Spec& spec) { return identify(*state_, spec).id; }

  std::string key(const Spec& spec) {
    State& state = *state_;
    const Keyed keyed = identify(state, spec);
    if (const auto held = state.memory.find(keyed.id)) return held->key;
    if (const auto found = stored(state, spec, keyed)) return found->key;
    return cache::key_of(keyed.made_by(compiler_of(state, spec)));
  }

  cache::KeyInputs key_inputs(const Spec& spec) {
    State& state = *state_;
    return identify(state, spec).made_by(compiler_of(state, spec));
  }

  std::vector<cache::Prebuilt::Document> tuning_documents() { return state_->prebuilt.documents(); }

  void evict(const Spec& spec, const std::string& key) {
    State& state = *state_;
    const Keyed keyed = identify(state, spec);
    state.memory.erase(keyed.id);
    if (state.store) state.store->evict(key, "the device would not load it");
    const std::scoped_lock lock(state.mutex);
    state.refused.insert(keyed.id);
    ++counters_.evictions;
  }

  void seal() noexcept { sealed_ = true; }
  bool sealed() const noexcept { return sealed_; }

  CompilerState compiler_state(CompilerKind kind) {
    CompilerState found;
    if (options_.mode == CompileMode::never) {
      found.trouble = "compiling is off: HIPFLASH_COMPILE=never";
      return found;
    }
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
  // Assembling and hashing the text costs more than finding code in memory, so names are
  // remembered: a Spec has one text as long as the process lives.
  Keyed identify(State& state, const Spec& spec) {
    const std::string name = joined(spec);
    if (const auto known = state.keys.find(name)) return *known;
    Keyed keyed;
    cache::KeyInputs& inputs = keyed.inputs;
    inputs.family = spec.family;
    inputs.source_hash = cache::hash_hex(options_.source(spec));
    inputs.prologue = spec.facts;
    inputs.options = spec.options;
    inputs.arch = spec.arch;
    inputs.abi = static_cast<std::uint32_t>(kLauncherAbi);
    inputs.compiler = kNoCompiler;
    keyed.id = cache::key_of(inputs);
    state.keys.put(name, std::make_shared<const Keyed>(keyed), 0);
    return keyed;
  }

  // The compiler's identity; asks for it. One may be installed while we run.
  static std::string compiler_of(State& state, const Spec& spec) {
    try {
      return state.compiler(spec.compiler).identify().identity;
    } catch (const Error& error) {
      log(LogLevel::debug, "{}: {}", describe(spec), error.what());
      return kNoCompiler;
    }
  }

  std::optional<CodeObject> from_memory(State& state, const std::string& id) {
    const auto held = state.memory.find(id);
    if (!held) return std::nullopt;
    ++counters_.memory_hits;
    CodeObject copy = *held;
    copy.tier = Tier::memory;
    copy.compile_ms = 0.0;
    return copy;
  }

  // The flight of this Spec, or the object if a flight landed in the meantime.
  std::pair<std::shared_ptr<Flight>, std::optional<CodeObject>> join(State& state, const Spec& spec,
                                                                     const Keyed& keyed) {
    const std::scoped_lock lock(state.mutex);
    if (auto hit = from_memory(state, keyed.id)) return {nullptr, std::move(hit)};
    auto& flight = state.flights[keyed.id];
    if (!flight) flight = std::make_shared<Flight>(spec, keyed);
    return {flight, std::nullopt};
  }

  void run(State& state, Flight& flight) {
    const std::string& id = flight.keyed.id;
    try {
      CodeObject found = search(state, flight);
      state.memory.put(id, std::make_shared<const CodeObject>(found), found.bytes.size());
      forget(state, id);
      flight.promise.set_value(std::move(found));
    } catch (...) {
      forget(state, id);
      flight.promise.set_exception(std::current_exception());
    }
  }

  static void forget(State& state, const std::string& id) {
    const std::scoped_lock lock(state.mutex);
    state.flights.erase(id);
  }

  static bool is_refused(State& state, const std::string& id) {
    const std::scoped_lock lock(state.mutex);
    return state.refused.contains(id);
  }

  // What this compiler made and the user's cache has.
  static std::optional<CodeObject> on_disk(State& state, const Keyed& keyed,
                                           const std::string& compiler) {
    if (!state.store) return std::nullopt;
    const auto look = [&](const cache::KeyInputs& wanted) -> std::optional<CodeObject> {
      const auto entry = state.store->find(cache::key_of(wanted));
      if (!entry) return std::nullopt;
      return object_of(*entry, Tier::disk);
    };
    const cache::KeyInputs inputs = keyed.made_by(compiler);
    if (auto found = look(inputs)) return found;
    const auto plain = without_flags(inputs);
    if (!plain || is_refused(state, keyed.id)) return std::nullopt;
    return look(*plain);
  }

  // What whoever made and the user's cache has.
  static std::optional<CodeObject> on_disk_by_anyone(State& state, const Keyed& keyed) {
    if (!state.store || is_refused(state, keyed.id)) return std::nullopt;
    auto entry = state.store->find_by_spec(cache::spec_id_of(keyed.inputs));
    if (const auto plain = without_flags(keyed.inputs); !entry && plain) {
      entry = state.store->find_by_spec(cache::spec_id_of(*plain));
    }
    if (!entry) return std::nullopt;
    return object_of(*entry, Tier::disk);
  }

  // Whoever made it, preferably this compiler.
  static std::optional<CodeObject> in_prebuilt(State& state, const Spec& spec, const Keyed& keyed,
                                               const std::string& compiler) {
    if (is_refused(state, keyed.id)) return std::nullopt;
    const cache::KeyInputs inputs = keyed.made_by(compiler);
    auto match = state.prebuilt.find(inputs);
    if (const auto plain = without_flags(inputs); !match && plain) {
      match = state.prebuilt.find(*plain);
    }
    if (!match) return std::nullopt;
    log(LogLevel::debug, "{}: found in {}", describe(spec), match->file);
    return object_of(match->entry, Tier::prebuilt);
  }

  // From the user's cache, else prebuilt.
  //
  // To ask a compiler what it is takes processes, or reading a large library. So one that is not
  // known yet is asked only for what is not prebuilt: whoever compiled into the user's cache left
  // the answer there, unless the compiler is a script, which may stand for another one tomorrow.
  // Where compiling is off nobody is asked: there the user's cache serves whoever compiled into it.
  std::optional<CodeObject> stored(State& state, const Spec& spec, const Keyed& keyed) const {
    const auto known = state.compiler(spec.compiler).compiler().known();
    if (known) {
      if (auto found = on_disk(state, keyed, known->identity)) return found;
    }
    auto found = in_prebuilt(state, spec, keyed, known ? known->identity : kNoCompiler);
    if (!found && options_.mode == CompileMode::never) return on_disk_by_anyone(state, keyed);
    if (found || known || !state.store) return found;
    return on_disk(state, keyed, compiler_of(state, spec));
  }

  CodeObject search(State& state, const Flight& flight) {
    const Keyed& keyed = flight.keyed;
    if (auto found = stored(state, flight.spec, keyed)) {
      ++(found->tier == Tier::disk ? counters_.disk_hits : counters_.prebuilt_hits);
      return *std::move(found);
    }
    const cache::KeyInputs inputs = keyed.made_by(check_may_compile(state, flight));
    const std::string key = cache::key_of(inputs);
    cache::FileLock lock;
    if (state.store && state.store->writable()) {
      const auto wait = std::chrono::duration<double>(options_.limits.seconds);
      lock = state.store->lock(key, std::chrono::duration_cast<std::chrono::milliseconds>(wait));
      if (!lock.held()) {
        log(LogLevel::debug, "{}: compiling without the lock of its key: {}", describe(flight.spec),
            lock.reason());
      }
      if (auto found = on_disk(state, keyed, inputs.compiler)) {
        ++counters_.disk_hits;
        return *std::move(found);
      }
    }
    return compile(state, flight, inputs, key);
  }

  CodeObject compile(State& state, const Flight& flight, const cache::KeyInputs& inputs,
                     const std::string& key) {
    const Spec& spec = flight.spec;
    CompileJob job;
    job.compiler = spec.compiler;
    job.source = options_.source(spec);
    job.arch = spec.arch;
    job.options = spec.options;
    job.label = describe(spec);
    job.limits = options_.limits;
    job.stop = flight.stop;
    CodeObject made{key, inputs, {}, Tier::compiled, 0.0};
    const auto start = Clock::now();
    try {
      made.bytes = state.compiler(spec.compiler).compiler().compile(job);
    } catch (const Error& error) {
      ++counters_.failures;
      if (error.code() != ErrorCode::CompileFailed || job.stop.stop_requested() ||
          state.compiler(spec.compiler).works(job)) {
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
    // One that was upgraded meanwhile: nobody knows which of the two made it.
    if (compiler_of(state, spec) != inputs.compiler) {
      made.inputs.compiler = kNoCompiler;
      made.key = cache::key_of(made.inputs);
    } else if (state.store && state.store->writable()) {
      try {
        state.store->put({inputs, spec.label}, to_view(made.bytes));
      } catch (const Error& error) {
        log(LogLevel::warn, "{}: not cached: {}", job.label, error.what());
      }
    }
    return made;
  }

  // The identity of the compiler that will.
  std::string check_may_compile(State& state, const Flight& flight) const {
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
    std::string identity;
    try {
      identity = compiler.identify().identity;
    } catch (const Error& error) {
      throw missing(state, flight, ErrorCode::CompileFailed, error.what(), error.log());
    }
    if (const auto trouble = compiler.trouble(flight.spec.arch)) {
      throw missing(state, flight, ErrorCode::CompileFailed, trouble->what(), trouble->log());
    }
    return identity;
  }

  static MissingCode missing(State& state, const Flight& flight, ErrorCode code,
                             const std::string& reason, const std::string& words = {}) {
    const auto compiler = state.compiler(flight.spec.compiler).compiler().known();
    const auto inputs = flight.keyed.made_by(compiler ? compiler->identity : kNoCompiler);
    std::string text =
        fmt::format("{}: no compiled code is in the cache or prebuilt (key {}), and {}",
                    describe(flight.spec), cache::key_of(inputs), reason);
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
std::shared_future<CodeObject> CodeProvider::get_async(const Spec& spec,
                                                       const std::stop_token& stop) {
  return impl_->get_async(spec, stop);
}
std::optional<Tier> CodeProvider::find(const Spec& spec) {
  return impl_->find(spec);
}
std::string CodeProvider::id(const Spec& spec) {
  return impl_->id(spec);
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
void CodeProvider::evict(const Spec& spec, const std::string& key) {
  impl_->evict(spec, key);
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
