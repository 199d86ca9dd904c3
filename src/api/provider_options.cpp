#include "api/context_impl.h"
#include "core/settings.h"

namespace hipflash::api {

jit::ProviderOptions provider_options(const ContextOptions& options) {
  jit::ProviderOptions provider = jit::provider_options_from_settings();
  if (!options.cache_dir.empty()) provider.cache_dir = options.cache_dir;
  if (!options.use_disk_cache) provider.cache_dir.clear();
  provider.prebuilt.insert(provider.prebuilt.begin(), options.prebuilt.begin(),
                           options.prebuilt.end());
  return provider;
}

Tier public_tier(jit::Tier tier) noexcept {
  switch (tier) {
    case jit::Tier::memory:
      return Tier::memory;
    case jit::Tier::disk:
      return Tier::disk;
    case jit::Tier::prebuilt:
      return Tier::prebuilt;
    case jit::Tier::compiled:
      break;
  }
  return Tier::compiled;
}

}  // namespace hipflash::api
