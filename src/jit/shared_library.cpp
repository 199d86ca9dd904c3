#include "jit/shared_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cache/key.h"
#include "core/fail.h"
#include "core/settings.h"

namespace hipflash::jit {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_native_library(const std::string& path) {
  unsigned char ident[EI_NIDENT] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(ident), sizeof ident);
  return file && std::memcmp(ident, ELFMAG, SELFMAG) == 0 &&
         ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32);
}

std::string path_if_loaded(const std::string& name) {
  void* const handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return {};
  link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name;
  const std::string path = known ? map->l_name : "";
  ::dlclose(handle);
  return path.starts_with('/') ? path : "";
}

// The loader's cache ends with a table of paths, each terminated by a zero byte.
std::string path_in_loader_cache(const std::string& cache, const std::string& name) {
  const std::string wanted = "/" + name + '\0';
  for (std::size_t at = cache.find(wanted); at != std::string::npos;
       at = cache.find(wanted, at + 1)) {
    const std::size_t before = cache.rfind('\0', at);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    std::string path = cache.substr(start, at + name.size() + 1 - start);
    if (path.starts_with('/') && is_native_library(path)) return path;
  }
  return {};
}

template <class T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof value);
  return static_cast<bool>(file);
}

std::string build_id(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header;
  if (!is_native_library(path) || !read_at(file, 0, header)) return {};
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    if (!read_at(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment)) return {};
    if (segment.p_type != PT_NOTE || segment.p_filesz > 65536) continue;
    std::string notes(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return {};
    std::size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= notes.size()) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes.data() + at, sizeof note);
      at += sizeof note;
      const std::size_t name = (std::size_t{note.n_namesz} + 3) & ~std::size_t{3};
      const std::size_t size = (std::size_t{note.n_descsz} + 3) & ~std::size_t{3};
      if (name > notes.size() - at || size > notes.size() - at - name) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(notes.data() + at, "GNU", 4) == 0) {
        std::string hex;
        for (std::size_t b = 0; b < note.n_descsz; ++b) {
          hex += fmt::format("{:02x}", static_cast<unsigned char>(notes[at + name + b]));
        }
        return hex;
      }
      at += name + size;
    }
  }
  return {};
}

}  // namespace

std::string find_library(const std::vector<std::string>& names,
                         const std::vector<std::string>& more_folders) {
  for (const std::string& name : names) {
    if (std::string path = path_if_loaded(name); !path.empty()) return path;
  }
  const std::string cache = read_file("/etc/ld.so.cache");
  const auto in_folders = [](const std::vector<std::string>& folders, const std::string& name) {
    for (const std::string& folder : folders) {
      std::string path = folder + "/" + name;
      if (is_native_library(path)) return path;
    }
    return std::string();
  };
  const std::vector<std::string> first = list_setting("LD_LIBRARY_PATH");
  std::vector<std::string> last = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};
  last.insert(last.end(), more_folders.begin(), more_folders.end());
  for (const std::string& name : names) {
    for (const std::string& path :
         {in_folders(first, name), path_in_loader_cache(cache, name), in_folders(last, name)}) {
      if (!path.empty()) return path;
    }
  }
  return {};
}

std::string library_content_id(const std::string& path) {
  if (const std::string id = build_id(path); !id.empty()) return "build-id " + id;
  const std::string content = read_file(path);
  if (content.empty()) fail(ErrorCode::CompileFailed, "{} cannot be read", path);
  return "blake2b " + cache::hash_hex(content);
}

std::string library_version(const std::string& path) {
  std::error_code ignored;
  const std::string name = std::filesystem::weakly_canonical(path, ignored).filename().string();
  const std::size_t at = name.find(".so.");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

SharedLibrary::SharedLibrary(const std::string& path)
    : path_(path), handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) {
    const char* const words = ::dlerror();
    fail(ErrorCode::CompileFailed, "{} cannot be loaded: {}", path,
         words ? words : "the loader gave no reason");
  }
}

void* SharedLibrary::symbol(const char* name) const noexcept {
  return ::dlsym(handle_, name);
}

void* SharedLibrary::required(const char* name) const {
  if (void* const found = symbol(name)) return found;
  fail(ErrorCode::CompileFailed, "{} has no function {}", path_, name);
}

}  // namespace hipflash::jit
