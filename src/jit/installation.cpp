#include "jit/installation.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <system_error>

#include "core/settings.h"

namespace hipflash::jit {

std::filesystem::path program_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::filesystem::path library_folder() {
  Dl_info info;
  struct link_map* map = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(&library_folder), &info, reinterpret_cast<void**>(&map),
                RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return {};
  }
  // The program itself has no name there, and argv[0] need not be a path: it must not make the
  // working directory a place to take code from.
  if (map->l_name == nullptr || map->l_name[0] == '\0') return program_folder();
  std::error_code ignored;
  return std::filesystem::canonical(map->l_name, ignored).parent_path();
}

std::vector<std::string> installed_prebuilt_folders() {
  std::vector<std::string> found;
  const std::filesystem::path own = library_folder();
  if (own.empty()) return found;
  // Beside the library; from bin/ for programs that contain it, as the build laid the tree out; and
  // lib/ for those of a build folder.
  for (const char* libraries : {".", "../" HIPFLASH_INSTALL_LIBDIR, "../lib"}) {
    std::error_code ignored;
    const std::filesystem::path folder =
        std::filesystem::canonical(own / libraries / "hipflash" / "prebuilt", ignored);
    if (folder.empty() || !std::filesystem::is_directory(folder, ignored)) continue;
    if (std::find(found.begin(), found.end(), folder.string()) == found.end()) {
      found.push_back(folder.string());
    }
  }
  return found;
}

std::string library_pack_folder() {
  if (const auto found = installed_prebuilt_folders(); !found.empty()) return found.front();
  const std::filesystem::path own = library_folder();
  return own.empty() ? "" : (own / "hipflash" / "prebuilt").string();
}

std::string user_pack_folder() {
  const std::filesystem::path data = setting("XDG_DATA_HOME");
  if (data.is_absolute()) return (data / "hipflash" / "packs").string();
  const std::filesystem::path home = setting("HOME");
  return home.is_absolute() ? (home / ".local/share/hipflash/packs").string() : "";
}

}  // namespace hipflash::jit
