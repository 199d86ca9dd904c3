#include <filesystem>

#include "api/context_impl.h"
#include "core/fail.h"
#include "core/settings.h"

namespace hipflash::api {

namespace {

// A pack that the caller handed over is an error if it cannot serve. A missing file is not: it may
// have been left out on purpose.
void check_pack(const std::string& path, const cache::PackTrust& trust) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  if (const auto pack = cache::Pack::open(path, trust); !pack) {
    fail(ErrorCode::CacheUnusable, "prebuilt: the pack {} is refused: {}", path, pack.reason);
  }
}

std::shared_ptr<const cache::Pack> pack_in_memory(const PackData& given,
                                                  const cache::PackTrust& trust) {
  const auto* const bytes = static_cast<const std::uint8_t*>(given.data);
  if (bytes == nullptr) fail(ErrorCode::InvalidArgument, "packs: data = null must point to a pack");
  auto pack = cache::Pack::in_memory({bytes, given.bytes}, "a pack in memory", trust);
  if (!pack) fail(ErrorCode::CacheUnusable, "packs: a pack is refused: {}", pack.reason);
  return *std::move(pack.value);
}

}  // namespace

jit::ProviderOptions provider_options(const ContextOptions& options) {
  jit::ProviderOptions provider = jit::provider_options_from_settings();
  if (!options.cache_dir.empty()) provider.cache_dir = options.cache_dir;
  if (!options.use_disk_cache) provider.cache_dir.clear();
  provider.prebuilt.insert(provider.prebuilt.begin(), options.prebuilt.begin(),
                           options.prebuilt.end());
  for (const std::string& path : options.prebuilt) check_pack(path, provider.trust);
  for (const PackData& pack : options.packs) {
    provider.packs.push_back(pack_in_memory(pack, provider.trust));
  }
  return provider;
}

}  // namespace hipflash::api
