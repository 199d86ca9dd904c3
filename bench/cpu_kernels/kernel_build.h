// Compiles one CPU kernel from kernel_sources/ with a hand-written prologue and loads it: for
// working on the kernel text alone, without the library.
#pragma once

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "cpu/shape.h"
#include "cpu/tiles.h"

namespace hipflash::bench {

struct KernelConfig {
  CpuIsa isa = CpuIsa::portable;
  ElementType element = ElementType::f32;
  int head_dim = 0, value_head_dim = 0;  // 0: general
  bool window_left = false, window_right = false, softcap = false, alibi = false, bias = false;
  bool mask = false, lse = true, split_keys = false;
  CpuShape shape = {};
  CpuTile tile = {};
};

struct Kernel {
  using Entry = void (*)(const AttentionArgs*, const CpuWork*, long long, void*);
  Entry forward = nullptr, merge = nullptr;
  CpuTile tile = {};
};

inline const char* name_of(ElementType element) {
  return element == ElementType::f16 ? "f16" : element == ElementType::bf16 ? "bf16" : "f32";
}

inline std::string prologue(const KernelConfig& c) {
  std::ostringstream text;
  const auto flag = [&](const char* name, bool value) {
    text << "  static constexpr bool " << name << " = " << (value ? "true" : "false") << ";\n";
  };
  const auto number = [&](const char* name, int value) {
    text << "  static constexpr int " << name << " = " << value << ";\n";
  };
  text << "#include \"common/attention_args.h\"\nnamespace hipflash {\nstruct Spec {\n"
       << "  static constexpr ElementType element = ElementType::" << name_of(c.element) << ";\n";
  number("head_dim", c.head_dim);
  number("value_head_dim", c.value_head_dim);
  flag("window_left", c.window_left);
  flag("window_right", c.window_right);
  flag("softcap", c.softcap);
  flag("alibi", c.alibi);
  flag("bias", c.bias);
  flag("mask", c.mask);
  for (const char* const absent : {"sinks", "ragged", "paged"}) flag(absent, false);
  flag("lse", c.lse);
  flag("split_keys", c.split_keys);
  flag("aligned", false);
  number("tile_queries", c.tile.tile_queries);
  number("tile_keys", c.tile.tile_keys);
  number("micro_rows", c.tile.micro_rows);
  number("micro_vectors", c.tile.micro_vectors);
  number("chunk_rows", c.shape.chunk_rows);
  number("few_keys", c.shape.few_keys);
  text << "};\n}\n#include \"cpu/attention_forward.cpp\"\n";
  return text.str();
}

// Builds in `folder` and loads. Exits with the compiler's words on failure.
inline Kernel build_kernel(KernelConfig config, const std::string& compiler,
                           const std::string& folder, const std::string& more_options = {}) {
  if (config.tile.tile_queries == 0) {
    config.tile =
        cpu_default_tile(config.isa, config.element, config.head_dim, config.value_head_dim);
  }
  const std::string text = prologue(config);
  const std::string command = compiler + " " + kCpuKernelOptions + " " +
                              cpu_isa_facts(config.isa).options + " " + more_options +
                              " -I" HIPFLASH_KERNEL_SOURCES " ";
  mkdir(folder.c_str(), 0700);
  const std::string stem = folder + "/" + std::to_string(std::hash<std::string>{}(command + text));
  std::ofstream(stem + ".cpp") << text;
  const std::string whole = command + stem + ".cpp -o " + stem + ".so";
  if (std::system(whole.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", whole.c_str());
    std::exit(1);
  }
  void* module = dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  Kernel kernel;
  kernel.forward = reinterpret_cast<Kernel::Entry>(dlsym(module, "attention_forward"));
  kernel.merge = reinterpret_cast<Kernel::Entry>(dlsym(module, "attention_merge"));
  kernel.tile = config.tile;
  return kernel;
}

}  // namespace hipflash::bench
