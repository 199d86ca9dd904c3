// Loaded code objects, shared by all plans of a Context that use the same device and Spec.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "jit/code_provider.h"
#include "jit/fork_local.h"
#include "jit/lru.h"
#include "platform/device.h"

namespace hipflash::jit {

// A loaded module and how it was come by. Whoever launches from it holds `module` until that work
// is done: dropping the last holder unloads it.
struct LoadedModule {
  std::shared_ptr<platform::Module> module;
  std::string key;
  Tier tier = Tier::memory;  // memory: was loaded already
  double compile_ms = 0.0;   // of this call
  double load_ms = 0.0;      // of this call
};

class ModuleCache {
 public:
  struct Caps {
    std::size_t count = 4096;
    std::size_t bytes = std::size_t{512} << 20;  // of code objects
  };

  explicit ModuleCache(CodeProvider& provider) : ModuleCache(provider, Caps()) {}
  ModuleCache(CodeProvider& provider, Caps caps);

  // The module of this spec on this device, loaded at most once whatever the number of threads. An
  // object from a cache that the device refuses is evicted and compiled anew, once, with one
  // warning; a freshly compiled one that it refuses is an Error(LaunchFailed).
  LoadedModule get(platform::Device& device, const Spec& spec);

  std::size_t count() const;
  void clear();  // drops all modules that nobody holds; the others go when their holders do

 private:
  struct Id {
    platform::Kind kind;
    int ordinal;
    std::string arch;
    std::string spec;  // CodeProvider::id()
    friend bool operator==(const Id&, const Id&) = default;
  };
  struct IdHash {
    std::size_t operator()(const Id& id) const noexcept;
  };
  struct Loaded {
    std::shared_ptr<platform::Module> module;
    std::string key;
  };
  using Modules = Lru<Id, const Loaded, IdHash>;

  CodeProvider& provider_;
  ForkLocal<Modules> modules_;
};

}  // namespace hipflash::jit
