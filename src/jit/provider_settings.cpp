// What the environment says about finding and making code.
#include <filesystem>

#include "cache/directory.h"
#include "core/log.h"
#include "jit/code_provider.h"
#include "jit/installation.h"

namespace hipflash::jit {

ProviderOptions provider_options_from_settings() {
  ProviderOptions options;
  options.cache_dir = setting("HIPFLASH_CACHE_DIR");
  if (options.cache_dir.empty()) {
    options.cache_dir = cache::default_directory().string();
    if (options.cache_dir.empty()) {
      log(LogLevel::warn,
          "there is no home folder, so compiled code is kept in memory only; HIPFLASH_CACHE_DIR "
          "names a folder to use");
    }
  }
  options.cache_max_bytes = cache_max_setting();
  options.prebuilt = list_setting("HIPFLASH_PREBUILT");
  options.installed = installed_prebuilt_folders();
  std::error_code ignored;
  if (const std::string folder = user_pack_folder();
      std::filesystem::is_directory(folder, ignored)) {
    options.prebuilt.push_back(folder);
  }
  for (const std::string& key : list_setting("HIPFLASH_TRUSTED_KEYS")) {
    options.trust.keys.push_back(cache::parse_public_key(key, "HIPFLASH_TRUSTED_KEYS:"));
  }
  options.mode = compile_mode_setting();
  options.limits = compile_limits_setting();
  options.strict = bool_setting("HIPFLASH_STRICT");
  return options;
}

}  // namespace hipflash::jit
