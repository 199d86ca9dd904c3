#include "jit/hiprtc_compiler.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "core/fail.h"
#include "jit/rtc_compiler.h"
#include "jit/rtc_program.h"

namespace hipflash::jit {
namespace {

const std::vector<std::string> kFolders = {"/opt/rocm/lib", "/opt/rocm/lib64", "/opt/rocm/hip/lib"};

// HIP 5 before libhiprtc existed keeps hipRTC in the runtime library.
const std::vector<std::string> kCompilers = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                             "libamdhip64.so.5"};

constexpr const char* kComgrs[] = {"libamd_comgr.so.3", "libamd_comgr.so.2"};

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
  for (const char* name : kComgrs) {
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

constexpr RtcDialect kDialect = {"hipRTC", "hiprtc", "Code", "kernel.hip", "--offload-arch="};

class Hiprtc {
 public:
  static constexpr CompilerKind kKind = CompilerKind::hiprtc;
  static constexpr bool kSerial = true;  // not all versions may be used from two threads at once
  static constexpr const char* kProduct = "AMD compiler";

  static std::string find() { return find_hiprtc(); }

  // All candidates are watched, so that the memo need not read which one is used.
  static std::vector<std::string> identity_files(const std::string& path) {
    std::vector<std::string> files = {path};
    for (const char* name : kComgrs) {
      if (std::string found = find_library({name}, kFolders); !found.empty()) {
        files.push_back(std::move(found));
      }
    }
    return files;
  }

  static Identity identity(const std::string& path) {
    const std::string comgr = find_comgr(path);
    const std::string version = library_version(path);
    return Identity{fmt::format("hiprtc {} {}; comgr {} {}", version, library_content_id(path),
                                library_version(comgr), library_content_id(comgr)),
                    fmt::format("{} (hipRTC {}, comgr {})", path, version, library_version(comgr))};
  }

  // "gfx90a" of "amdgcn-amd-amdhsa--gfx90a", "gfx942:xnack-" and "gfx942".
  static std::string base_architecture(const std::string& name) {
    const std::size_t at = name.rfind("--");
    const std::string tail = at == std::string::npos ? name : name.substr(at + 2);
    return tail.substr(0, tail.find(':'));
  }

  // The compiler ends the process for others.
  static bool features_known(const std::string& arch) {
    static const std::regex known("gfx[0-9a-f]+(:sramecc[+-])?(:xnack[+-])?");
    return std::regex_match(arch, known);
  }

  explicit Hiprtc(const std::string& path) : comgr_(find_comgr(path)), programs_(kDialect, path) {
    comgr_.require("amd_comgr_get_isa_count", isa_count_);
    comgr_.require("amd_comgr_get_isa_name", isa_name_);
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

  std::vector<std::byte> compile(const CompileJob& job) const { return programs_.compile(job); }

 private:
  SharedLibrary comgr_;  // opened first: hipRTC takes it from the process
  RtcPrograms programs_;
  int (*isa_count_)(std::size_t*) = nullptr;
  int (*isa_name_)(std::size_t, const char**) = nullptr;
};

}  // namespace

std::shared_ptr<Compiler> make_hiprtc_compiler(const std::string& memo_dir) {
  return std::make_shared<RtcCompiler<Hiprtc>>(memo_dir);
}

std::vector<std::string> hiprtc_architectures() {
  return RtcCompiler<Hiprtc>("").architectures();
}

}  // namespace hipflash::jit
