#include "jit/module_cache.h"

#include <chrono>

#include "core/log.h"
#include "hipflash/error.h"

namespace hipflash::jit {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

std::size_t ModuleCache::IdHash::operator()(const Id& id) const noexcept {
  const std::hash<std::string> of;
  return of(id.spec) ^ (of(id.arch) << 1) ^ static_cast<std::size_t>(id.ordinal) ^
         (static_cast<std::size_t>(id.kind) << 16);
}

ModuleCache::ModuleCache(CodeProvider& provider, Caps caps)
    : provider_(provider), modules_([caps] {
        return std::make_unique<Modules>(LruCaps{caps.count, caps.bytes});
      }) {}

LoadedModule ModuleCache::get(platform::Device& device, const Spec& spec) {
  LoadedModule result;
  const platform::DeviceFacts& facts = device.facts();
  const auto load = [&]() -> Modules::Sized {
    CodeObject code = provider_.get(spec);
    result.tier = code.tier;
    result.compile_ms = code.compile_ms;
    const auto load_once = [&]() -> Modules::Sized {
      const auto start = Clock::now();
      auto module = device.load(code);
      result.load_ms = milliseconds_since(start);
      return {std::make_shared<const Loaded>(Loaded{std::move(module), code.key}),
              code.bytes.size()};
    };
    if (code.tier == Tier::compiled) return load_once();
    try {
      return load_once();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::LaunchFailed) throw;
      log(LogLevel::warn, "{} would not load code from {} ({}); compiling it again", facts.name,
          to_string(code.tier), error.what());
    }
    provider_.evict(spec, code.key);
    code = provider_.get(spec);
    result.tier = code.tier;
    result.compile_ms = code.compile_ms;
    return load_once();
  };
  const auto loaded =
      modules_->get(Id{facts.kind, facts.ordinal, facts.arch, provider_.id(spec)}, load);
  result.module = loaded->module;
  result.key = loaded->key;
  return result;
}

std::size_t ModuleCache::count() const {
  return modules_->count();
}

void ModuleCache::clear() {
  modules_->clear();
}

}  // namespace hipflash::jit
