// Compiling and launching the RDNA kernel text without the library: what a test of the text needs.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include "common/attention_args.h"
#include "gpu/tiles_rdna.h"

namespace rdna_test {

// The compile-time facts of a kernel: one member of `struct Spec` each.
struct Facts {
  hipflash::ElementType element = hipflash::ElementType::f16;
  int head_dim = 64, value_head_dim = 64;
  bool window_left = false, window_right = false, softcap = false, alibi = false, bias = false;
  bool mask = false, lse = true, split_keys = false, aligned = true;
};

// Members of `struct Spec` for the facts and a tile.
std::string prologue(const Facts& facts, const hipflash::rdna::WmmaTile& tile);
std::string prologue(const Facts& facts, const hipflash::rdna::DotTile& tile);

// A family's file below `folder` with every #include "..." replaced, behind the prologue.
std::string source_text(const std::string& folder, const std::string& family,
                        const std::string& spec_members);

// Code object for an architecture, with the options of the text's tiles_*.h. Throws
// std::runtime_error with the compiler's words.
std::vector<char> compile(const std::string& source, const std::string& arch,
                          const std::vector<std::string>& options = {
                              std::begin(hipflash::rdna::kOptions),
                              std::end(hipflash::rdna::kOptions)});

// Device memory. New memory is filled with NaN patterns.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* get() const { return pointer_; }
  void upload(const void* data, std::size_t bytes);
  void download(void* data, std::size_t bytes) const;

 private:
  void* pointer_ = nullptr;
};

// A loaded code object.
class Module {
 public:
  explicit Module(const std::vector<char>& code);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  void launch(const char* kernel, long long blocks, int threads,
              const hipflash::AttentionArgs& args) const;

 private:
  hipModule_t module_ = nullptr;
};

}  // namespace rdna_test
