#include "jit/nvrtc_compiler.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "core/fail.h"
#include "jit/shared_library.h"

namespace hipflash::jit {
namespace {

const std::vector<std::string> kFolders = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                           "/opt/cuda/lib64"};
const std::vector<std::string> kCompilers = {"libnvrtc.so.13", "libnvrtc.so.12",
                                             "libnvrtc.so.11.2"};

std::string find_nvrtc() {
  std::string path = find_library(kCompilers, kFolders);
  if (path.empty()) {
    fail(ErrorCode::CompileFailed, "there is no NVRTC: none of {} was found",
         fmt::join(kCompilers, ", "));
  }
  return path;
}

class Library {
 public:
  explicit Library(const std::string& path) : nvrtc_(path) {
    nvrtc_.require("nvrtcCreateProgram", create_);
    nvrtc_.require("nvrtcCompileProgram", compile_);
    nvrtc_.require("nvrtcDestroyProgram", destroy_);
    nvrtc_.require("nvrtcGetProgramLogSize", log_size_);
    nvrtc_.require("nvrtcGetProgramLog", log_);
    nvrtc_.require("nvrtcGetCUBINSize", code_size_);
    nvrtc_.require("nvrtcGetCUBIN", code_);
    nvrtc_.require("nvrtcGetErrorString", error_string_);
    nvrtc_.require("nvrtcGetNumSupportedArchs", arch_count_);
    nvrtc_.require("nvrtcGetSupportedArchs", archs_);
  }

  std::vector<std::string> architectures() const {
    int count = 0;
    if (arch_count_(&count) != 0 || count <= 0) return {};
    std::vector<int> numbers(static_cast<std::size_t>(count));
    if (archs_(numbers.data()) != 0) return {};
    std::vector<std::string> names;
    for (const int number : numbers) names.push_back(fmt::format("sm_{}", number));
    return names;
  }

  std::vector<std::byte> compile(const CompileJob& job) {
    const auto known = architectures();
    std::string base = job.arch;  // sm_90a and sm_100f are forms of sm_90 and sm_100
    if (!base.empty() && (base.back() == 'a' || base.back() == 'f')) base.pop_back();
    if (std::find(known.begin(), known.end(), base) == known.end()) {
      fail(ErrorCode::CompileFailed,
           "{}: architecture \"{}\" is not known to the installed NVRTC, which knows {}", job.label,
           job.arch, fmt::join(known, ", "));
    }
    void* program = nullptr;
    check(job, "nvrtcCreateProgram",
          create_(&program, job.source.c_str(), "kernel.cu", 0, nullptr, nullptr), "");
    struct Destroyer {
      Library& library;
      void** program;
      ~Destroyer() { library.destroy_(program); }
    } const destroyer{*this, &program};

    std::vector<std::string> options = {"--gpu-architecture=" + job.arch};
    options.insert(options.end(), job.options.begin(), job.options.end());
    std::vector<const char*> pointers;
    for (const auto& option : options) pointers.push_back(option.c_str());
    const int result = compile_(program, static_cast<int>(pointers.size()), pointers.data());
    check(job, "nvrtcCompileProgram", result, result == 0 ? "" : words(program));

    std::size_t size = 0;
    check(job, "nvrtcGetCUBINSize", code_size_(program, &size), "");
    if (size == 0) {
      throw Error(ErrorCode::CompileFailed,
                  fmt::format("{}: NVRTC reported success and made no code", job.label),
                  words(program));
    }
    std::vector<std::byte> code(size);
    check(job, "nvrtcGetCUBIN", code_(program, reinterpret_cast<char*>(code.data())), "");
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
    return log.empty() ? "(NVRTC gave no message)" : log;
  }

  void check(const CompileJob& job, const char* what, int result, const std::string& log) const {
    if (result == 0) return;
    const char* const meaning = error_string_(result);
    throw Error(ErrorCode::CompileFailed,
                fmt::format("{}: {} failed for {} with {} ({})", job.label, what, job.arch, result,
                            meaning ? meaning : "no meaning given"),
                log);
  }

  SharedLibrary nvrtc_;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*code_size_)(void*, std::size_t*) = nullptr;
  int (*code_)(void*, char*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*arch_count_)(int*) = nullptr;
  int (*archs_)(int*) = nullptr;
};

class NvrtcCompiler : public Compiler {
 public:
  explicit NvrtcCompiler(std::string memo_dir) : memo_dir_(std::move(memo_dir)) {}

  CompilerKind kind() const noexcept override { return CompilerKind::nvrtc; }

  std::string tool() override {
    const std::scoped_lock lock(mutex_);
    return find();
  }

  Identity identify() override {
    const std::scoped_lock lock(mutex_);
    const std::string path = find();
    if (!known_) {
      known_ = remembered_identity(memo_dir_, {path}, [&] {
        const std::string version = library_version(path);
        return Identity{fmt::format("nvrtc {} {}", version, library_content_id(path)),
                        fmt::format("{} (NVRTC {})", path, version)};
      });
    }
    return *known_;
  }

  std::vector<std::byte> compile(const CompileJob& job) override {
    return library(job.tool).compile(job);  // NVRTC itself is thread-safe
  }

  std::vector<std::string> architectures() { return library("").architectures(); }

 private:
  const std::string& find() {
    if (path_.empty()) path_ = find_nvrtc();
    return path_;
  }

  Library& library(const std::string& tool) {
    const std::scoped_lock lock(mutex_);
    if (!library_) library_ = std::make_unique<Library>(tool.empty() ? find() : tool);
    return *library_;
  }

  const std::string memo_dir_;
  std::mutex mutex_;
  std::string path_;
  std::optional<Identity> known_;
  std::unique_ptr<Library> library_;
};

}  // namespace

std::shared_ptr<Compiler> make_nvrtc_compiler(const std::string& memo_dir) {
  return std::make_shared<NvrtcCompiler>(memo_dir);
}

std::vector<std::string> nvrtc_architectures() {
  return NvrtcCompiler("").architectures();
}

}  // namespace hipflash::jit
