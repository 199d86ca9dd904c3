// Modules and their entries, as the runtimes of the host device (hip_runtime.cpp, cuda_driver.cpp)
// hand them out: shared objects that its compilers (hiprtc.cpp, nvrtc.cpp) made, as bytes in
// memory.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/host_device/device.h"

namespace host_device {

struct Module;
struct Function {
  Module* module;
  void (*call)(void* arguments);
  std::vector<unsigned> sizes;        // of the arguments, in bytes
  unsigned shared_bytes = 48 * 1024;  // that a launch may ask for
};
struct Module {
  void* library;
  int device;
  bool loaded = true;
  std::map<std::string, Function> functions = {};

  template <class T>
  T* find(const std::string& name) const {
    return reinterpret_cast<T*>(::dlsym(library, name.c_str()));
  }
};

// As dlopen(); null of what is none, or cannot be loaded.
inline void* load_image(const void* image) {
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return nullptr;
  // The table of sections is the end of what linkers write.
  const std::size_t bytes = head.e_shoff + std::size_t{head.e_shnum} * head.e_shentsize;
  // The loader knows a library again by its path.
  char path[] = "/tmp/host-device-XXXXXX";
  const int file = ::mkstemp(path);
  if (file < 0) return nullptr;
  const bool written = ::write(file, image, bytes) == static_cast<ssize_t>(bytes);
  ::close(file);
  void* const library = written ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  // Kept, it names the lines of what a sanitizer finds.
  if (!std::getenv("HOST_GPU_KEEP")) ::unlink(path);
  if (!library) std::fprintf(stderr, "host device: %s\n", ::dlerror());
  return library;
}

// Loads code for the architecture `arch`, whatever its feature flags.
inline int load_module(Module** module, const void* image, int device, const std::string& arch) {
  // Never destroyed, unloaded ones neither, so that handles stay known.
  static auto& all = *new std::vector<std::unique_ptr<Module>>;
  void* const library = load_image(image);
  if (!library) return kNoBinary;
  auto loaded = std::make_unique<Module>(Module{library, device});
  const auto without_flags = [](const std::string& name) { return name.substr(0, name.find(':')); };
  const char* const compiled_for = loaded->find<const char>("host_gpu_arch");
  if (!compiled_for || without_flags(compiled_for) != without_flags(arch)) {
    ::dlclose(library);
    return kNoBinary;
  }
  *module = loaded.get();
  all.push_back(std::move(loaded));
  return kSuccess;
}

inline int unload_module(Module* module) {
  if (!module->loaded) return kInvalidHandle;
  module->loaded = false;
  ::dlclose(module->library);
  return kSuccess;
}

inline int find_function(Function** function, Module* module, const std::string& name) {
  if (!module->loaded) return kInvalidHandle;
  auto known = module->functions.find(name);
  if (known == module->functions.end()) {
    const auto call = module->find<void(void*)>("host_gpu_call_" + name);
    const unsigned* sizes = module->find<const unsigned>("host_gpu_sizes_" + name);  // up to a 0
    if (!call || !sizes) return kNotFound;
    known = module->functions.emplace(name, Function{module, call, {}}).first;
    while (*sizes != 0) known->second.sizes.push_back(*sizes++);
  }
  *function = &known->second;
  return kSuccess;
}

}  // namespace host_device
