#include "jit/nvrtc_compiler.h"

#include "core/fail.h"
#include "jit/rtc_compiler.h"
#include "jit/rtc_program.h"

namespace hipflash::jit {
namespace {

const std::vector<std::string> kFolders = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                           "/opt/cuda/lib64"};
const std::vector<std::string> kCompilers = {"libnvrtc.so.13", "libnvrtc.so.12",
                                             "libnvrtc.so.11.2"};

constexpr RtcDialect kDialect = {"NVRTC", "nvrtc", "CUBIN", "kernel.cu", "--gpu-architecture="};

class Nvrtc {
 public:
  static constexpr CompilerKind kKind = CompilerKind::nvrtc;
  static constexpr bool kSerial = false;
  static constexpr const char* kProduct = kDialect.product;

  static std::string find() {
    std::string path = find_library(kCompilers, kFolders);
    if (path.empty()) {
      fail(ErrorCode::CompileFailed, "there is no NVRTC: none of {} was found",
           fmt::join(kCompilers, ", "));
    }
    return path;
  }

  static std::vector<std::string> identity_files(const std::string& path) { return {path}; }

  static Identity identity(const std::string& path) {
    const std::string version = library_version(path);
    return Identity{fmt::format("nvrtc {} {}", version, library_content_id(path)),
                    fmt::format("{} (NVRTC {})", path, version)};
  }

  // sm_90a and sm_100f are forms of sm_90 and sm_100.
  static std::string base_architecture(std::string name) {
    if (!name.empty() && (name.back() == 'a' || name.back() == 'f')) name.pop_back();
    return name;
  }

  static bool features_known(const std::string&) { return true; }  // there are none

  explicit Nvrtc(const std::string& path) : programs_(kDialect, path) {
    programs_.library().require("nvrtcGetNumSupportedArchs", arch_count_);
    programs_.library().require("nvrtcGetSupportedArchs", archs_);
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

  std::vector<std::byte> compile(const CompileJob& job) const { return programs_.compile(job); }

 private:
  RtcPrograms programs_;
  int (*arch_count_)(int*) = nullptr;
  int (*archs_)(int*) = nullptr;
};

}  // namespace

std::shared_ptr<Compiler> make_nvrtc_compiler(const std::string& memo_dir) {
  return std::make_shared<RtcCompiler<Nvrtc>>(memo_dir);
}

std::vector<std::string> nvrtc_architectures() {
  return RtcCompiler<Nvrtc>("").architectures();
}

}  // namespace hipflash::jit
