#include "kernel.h"

#include <hip/hiprtc.h>

#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace rdna_test {
namespace {

void check(hipError_t status, const char* what) {
  if (status != hipSuccess) {
    throw std::runtime_error(std::string(what) + ": " + hipGetErrorString(status));
  }
}

void flatten(const std::string& folder, const std::string& path, std::set<std::string>& seen,
             std::string& text) {
  if (!seen.insert(path).second) return;
  std::ifstream file(folder + "/" + path);
  if (!file) throw std::runtime_error("cannot read " + folder + "/" + path);
  const std::string prefix = "#include \"";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(prefix, 0) == 0) {
      flatten(folder, line.substr(prefix.size(), line.rfind('"') - prefix.size()), seen, text);
    } else if (line.rfind("#pragma once", 0) != 0) {
      text += line + "\n";
    }
  }
}

const char* element_name(hipflash::ElementType element) {
  switch (element) {
    case hipflash::ElementType::f16:
      return "f16";
    case hipflash::ElementType::bf16:
      return "bf16";
    case hipflash::ElementType::f32:
      return "f32";
  }
  return "";
}

std::string shared_facts(const Facts& facts) {
  std::ostringstream out;
  const auto flag = [&](const char* name, bool value) {
    out << "  static constexpr bool " << name << " = " << (value ? "true" : "false") << ";\n";
  };
  out << "  static constexpr ElementType element = ElementType::" << element_name(facts.element)
      << ";\n  static constexpr int head_dim = " << facts.head_dim
      << ";\n  static constexpr int value_head_dim = " << facts.value_head_dim << ";\n";
  flag("window_left", facts.window_left);
  flag("window_right", facts.window_right);
  flag("softcap", facts.softcap);
  flag("alibi", facts.alibi);
  flag("bias", facts.bias);
  flag("mask", facts.mask);
  flag("sinks", false);
  flag("ragged", false);
  flag("paged", false);
  flag("lse", facts.lse);
  flag("split_keys", facts.split_keys);
  flag("aligned", facts.aligned);
  out << "  static constexpr int pack_heads = 0;\n";
  return out.str();
}

}  // namespace

std::string prologue(const Facts& facts, const hipflash::rdna::WmmaTile& tile) {
  std::ostringstream out;
  out << shared_facts(facts) << "  static constexpr int waves = " << tile.waves
      << ";\n  static constexpr int query_tiles = " << tile.query_tiles
      << ";\n  static constexpr int tile_keys = " << tile.tile_keys
      << ";\n  static constexpr bool query_shared = " << (tile.query_shared ? "true" : "false")
      << ";\n  static constexpr int value_slice = " << tile.value_slice << ";\n";
  return out.str();
}

std::string prologue(const Facts& facts, const hipflash::rdna::DotTile& tile) {
  std::ostringstream out;
  out << shared_facts(facts) << "  static constexpr int threads = " << tile.threads
      << ";\n  static constexpr int tile_keys = " << tile.tile_keys
      << ";\n  static constexpr int dim_chunk = " << tile.dim_chunk
      << ";\n  static constexpr int value_chunk = " << tile.value_chunk << ";\n";
  return out.str();
}

std::string source_text(const std::string& folder, const std::string& family,
                        const std::string& spec_members) {
  std::set<std::string> seen;
  std::string text;
  flatten(folder, "common/attention_args.h", seen, text);
  text += "namespace hipflash {\nstruct Spec {\n" + spec_members + "};\n}  // namespace hipflash\n";
  flatten(folder, family, seen, text);
  return text;
}

std::vector<char> compile(const std::string& source, const std::string& arch,
                          const std::vector<std::string>& options) {
  hiprtcProgram program = nullptr;
  if (hiprtcCreateProgram(&program, source.c_str(), "attention.hip", 0, nullptr, nullptr) !=
      HIPRTC_SUCCESS) {
    throw std::runtime_error("hiprtcCreateProgram failed");
  }
  std::vector<std::string> all = {"--offload-arch=" + arch};
  all.insert(all.end(), options.begin(), options.end());
  std::vector<const char*> pointers;
  for (const std::string& option : all) pointers.push_back(option.c_str());
  const hiprtcResult status =
      hiprtcCompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
  std::size_t size = 0;
  if (status != HIPRTC_SUCCESS) {
    hiprtcGetProgramLogSize(program, &size);
    std::string log(size, ' ');
    hiprtcGetProgramLog(program, log.data());
    hiprtcDestroyProgram(&program);
    throw std::runtime_error("does not compile:\n" + log);
  }
  hiprtcGetCodeSize(program, &size);
  std::vector<char> code(size);
  hiprtcGetCode(program, code.data());
  hiprtcDestroyProgram(&program);
  return code;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) {
  check(hipMalloc(&pointer_, bytes ? bytes : 16), "hipMalloc");
  check(hipMemset(pointer_, 0xff, bytes ? bytes : 16), "hipMemset");
}
DeviceBuffer::~DeviceBuffer() {
  static_cast<void>(hipFree(pointer_));
}
void DeviceBuffer::upload(const void* data, std::size_t bytes) {
  if (bytes) check(hipMemcpy(pointer_, data, bytes, hipMemcpyHostToDevice), "upload");
}
void DeviceBuffer::download(void* data, std::size_t bytes) const {
  if (bytes) check(hipMemcpy(data, pointer_, bytes, hipMemcpyDeviceToHost), "download");
}

Module::Module(const std::vector<char>& code) {
  check(hipModuleLoadData(&module_, code.data()), "hipModuleLoadData");
}
Module::~Module() {
  static_cast<void>(hipModuleUnload(module_));
}

void Module::launch(const char* kernel, long long blocks, int threads,
                    const hipflash::AttentionArgs& args) const {
  hipFunction_t function = nullptr;
  check(hipModuleGetFunction(&function, module_, kernel), kernel);
  hipflash::AttentionArgs copy = args;
  void* parameters[] = {&copy};
  check(
      hipModuleLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1,
                            static_cast<unsigned>(threads), 1, 1, 0, nullptr, parameters, nullptr),
      kernel);
  check(hipDeviceSynchronize(), "hipDeviceSynchronize");
}

}  // namespace rdna_test
