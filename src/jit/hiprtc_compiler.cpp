#include "jit/hiprtc_compiler.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

#include "core/fail.h"
#include "jit/shared_library.h"

namespace hipflash::jit {
namespace {

const std::vector<std::string> kFolders = {"/opt/rocm/lib", "/opt/rocm/lib64", "/opt/rocm/hip/lib"};

// HIP 5 before libhiprtc existed keeps hipRTC in the runtime library.
const std::vector<std::string> kCompilers = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                             "libamdhip64.so.5"};

std::string find_hiprtc() {
  std::string path = find_library(kCompilers, kFolders);
  if (path.empty()) {
    fail(ErrorCode::CompileFailed,
         "there is no hipRTC: none of libhiprtc.so.7, .6, .5 and libamdhip64.so.5 was found");
  }
  return path;
}

// Several versions of libamd_comgr may be installed; which one hipRTC uses is a name inside of it.
std::string find_comgr(const std::string& hiprtc) {
  std::ifstream file(hiprtc, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> names;
  for (const char* name : {"libamd_comgr.so.3", "libamd_comgr.so.2"}) {
    if (content.find(name) != std::string::npos)
      names.insert(names.begin(), name);
    else
      names.emplace_back(name);
  }
  std::string path = find_library(names, kFolders);
  if (path.empty()) {
    fail(ErrorCode::CompileFailed, "{} needs libamd_comgr.so.3 or .2, which was not found", hiprtc);
  }
  return path;
}

// "gfx90a" of "amdgcn-amd-amdhsa--gfx90a", "gfx942:xnack-" and "gfx942".
std::string base_architecture(const std::string& name) {
  const std::size_t at = name.rfind("--");
  const std::string tail = at == std::string::npos ? name : name.substr(at + 2);
  return tail.substr(0, tail.find(':'));
}

// Serial: hipRTC is not safe to use from two threads at once in all of its versions.
class Library {
 public:
  explicit Library(const std::string& path) : comgr_(find_comgr(path)), hiprtc_(path) {
    comgr_.require("amd_comgr_get_isa_count", isa_count_);
    comgr_.require("amd_comgr_get_isa_name", isa_name_);
    hiprtc_.require("hiprtcCreateProgram", create_);
    hiprtc_.require("hiprtcCompileProgram", compile_);
    hiprtc_.require("hiprtcDestroyProgram", destroy_);
    hiprtc_.require("hiprtcGetProgramLogSize", log_size_);
    hiprtc_.require("hiprtcGetProgramLog", log_);
    hiprtc_.require("hiprtcGetCodeSize", code_size_);
    hiprtc_.require("hiprtcGetCode", code_);
    hiprtc_.require("hiprtcGetErrorString", error_string_);
  }

  std::vector<std::string> architectures() const {
    std::vector<std::string> names;
    std::size_t count = 0;
    if (isa_count_(&count) != 0) return names;
    for (std::size_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      if (isa_name_(i, &name) == 0 && name) names.push_back(base_architecture(name));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  std::vector<std::byte> compile(const CompileJob& job) {
    const auto known = architectures();
    if (std::find(known.begin(), known.end(), base_architecture(job.arch)) == known.end()) {
      fail(ErrorCode::CompileFailed,
           "{}: architecture \"{}\" is not known to the installed AMD compiler, which knows {}",
           job.label, job.arch, fmt::join(known, ", "));
    }
    void* program = nullptr;
    check(job, "hiprtcCreateProgram",
          create_(&program, job.source.c_str(), "kernel.hip", 0, nullptr, nullptr), "");
    struct Destroyer {
      Library& library;
      void** program;
      ~Destroyer() { library.destroy_(program); }
    } const destroyer{*this, &program};

    std::vector<std::string> options = {"--offload-arch=" + job.arch};
    options.insert(options.end(), job.options.begin(), job.options.end());
    std::vector<const char*> pointers;
    for (const auto& option : options) pointers.push_back(option.c_str());
    const int result = compile_(program, static_cast<int>(pointers.size()), pointers.data());
    check(job, "hiprtcCompileProgram", result, result == 0 ? "" : words(program));

    std::size_t size = 0;
    check(job, "hiprtcGetCodeSize", code_size_(program, &size), "");
    if (size == 0) {
      throw Error(ErrorCode::CompileFailed,
                  fmt::format("{}: hipRTC reported success and made no code", job.label),
                  words(program));
    }
    std::vector<std::byte> code(size);
    check(job, "hiprtcGetCode", code_(program, reinterpret_cast<char*>(code.data())), "");
    return code;
  }

 private:
  std::string words(void* program) const {
    std::size_t size = 0;
    std::string log;
    if (log_size_(program, &size) == 0 && size > 1) {
      log.resize(size);
      if (log_(program, log.data()) != 0) log.clear();
      log.resize(std::min(log.size(), log.find('\0')));
    }
    return log.empty() ? "(hipRTC gave no message)" : log;
  }

  void check(const CompileJob& job, const char* what, int result, const std::string& log) const {
    if (result == 0) return;
    const char* const meaning = error_string_(result);
    throw Error(ErrorCode::CompileFailed,
                fmt::format("{}: {} failed for {} with {} ({})", job.label, what, job.arch, result,
                            meaning ? meaning : "no meaning given"),
                log);
  }

  SharedLibrary comgr_, hiprtc_;
  int (*isa_count_)(std::size_t*) = nullptr;
  int (*isa_name_)(std::size_t, const char**) = nullptr;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*code_size_)(void*, std::size_t*) = nullptr;
  int (*code_)(void*, char*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

class HiprtcCompiler : public Compiler {
 public:
  explicit HiprtcCompiler(std::string memo_dir) : memo_dir_(std::move(memo_dir)) {}

  CompilerKind kind() const noexcept override { return CompilerKind::hiprtc; }

  std::string tool() override {
    const std::scoped_lock lock(mutex_);
    return find();
  }

  Identity identify() override {
    const std::scoped_lock lock(mutex_);
    const std::string path = find();
    if (!known_) {
      // All candidates are watched, so that the memo need not read which one is used.
      std::vector<std::string> files = {path};
      for (const char* name : {"libamd_comgr.so.3", "libamd_comgr.so.2"}) {
        if (std::string found = find_library({name}, kFolders); !found.empty()) {
          files.push_back(std::move(found));
        }
      }
      known_ = remembered_identity(memo_dir_, files, [&] {
        const std::string comgr = find_comgr(path);
        const std::string version = library_version(path);
        return Identity{
            fmt::format("hiprtc {} {}; comgr {} {}", version, library_content_id(path),
                        library_version(comgr), library_content_id(comgr)),
            fmt::format("{} (hipRTC {}, comgr {})", path, version, library_version(comgr))};
      });
    }
    return *known_;
  }

  std::vector<std::byte> compile(const CompileJob& job) override {
    const std::scoped_lock lock(mutex_);
    return library(job.tool).compile(job);
  }

  std::vector<std::string> architectures() {
    const std::scoped_lock lock(mutex_);
    return library("").architectures();
  }

 private:
  const std::string& find() {
    if (path_.empty()) path_ = find_hiprtc();
    return path_;
  }

  Library& library(const std::string& path) {
    if (!library_) library_ = std::make_unique<Library>(path.empty() ? find() : path);
    return *library_;
  }

  const std::string memo_dir_;
  std::mutex mutex_;
  std::string path_;
  std::optional<Identity> known_;
  std::unique_ptr<Library> library_;
};

}  // namespace

std::shared_ptr<Compiler> make_hiprtc_compiler(const std::string& memo_dir) {
  return std::make_shared<HiprtcCompiler>(memo_dir);
}

std::vector<std::string> hiprtc_architectures() {
  return HiprtcCompiler("").architectures();
}

}  // namespace hipflash::jit
