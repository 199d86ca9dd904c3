#include "jit/host_compiler.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

#include "core/fail.h"
#include "jit/private_folder.h"
#include "jit/process.h"

namespace hipflash::jit {
namespace {

std::string on_path(const std::string& name) {
  for (const std::string& folder : list_setting("PATH")) {
    std::string path = folder + "/" + name;
    if (is_executable(path)) return path;
  }
  return {};
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// What would change the code behind the key's back, or keep the compiler from starting under
// limits.
std::vector<std::string> compiler_environment(const std::string& temporary) {
  std::vector<std::string> set = {"LC_ALL=C"};
  if (!temporary.empty()) set.push_back("TMPDIR=" + temporary);
  return ProcessRequest::child_environment(
      set, {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_PRELOAD",
            "SOURCE_DATE_EPOCH", "MAKEFLAGS"});
}

std::string ask(const std::string& compiler, const char* question) {
  ProcessRequest request;
  request.path = compiler;
  request.arguments = {question};
  request.environment = compiler_environment("");
  request.limits.seconds = std::min(20.0, compile_limits_setting().seconds);
  const ProcessResult result = run_process(request);
  std::string answer = first_line(result.out);
  if (!result.ended_well() || answer.empty()) {
    throw Error(
        ErrorCode::CompileFailed,
        fmt::format("{} {} {}", compiler, question,
                    result.ended_well() ? "printed nothing" : how_it_ended(result, request.limits)),
        result.err);
  }
  return answer;
}

// A script or a compiler cache stands for a compiler that may change while it stays the same file:
// such a one is asked in every process.
bool speaks_for_another(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const char* wrapper : {"ccache", "distcc", "icecc", "sccache", "snap"}) {
    if (name.find(wrapper) != std::string::npos) return true;
  }
  char magic[SELFMAG] = {};
  std::ifstream(path, std::ios::binary).read(magic, SELFMAG);
  return std::memcmp(magic, ELFMAG, SELFMAG) != 0;
}

bool is_shared_object(const std::string& bytes) {
  Elf64_Ehdr header;  // e_ident and e_type lie alike in both classes
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type == ET_DYN;
}

class HostCompiler : public Compiler {
 public:
  explicit HostCompiler(std::string memo_dir) : memo_dir_(std::move(memo_dir)) {}

  CompilerKind kind() const noexcept override { return CompilerKind::host; }

  std::string tool() override {
    std::string path = find_host_compiler();
    if (path.empty()) {
      fail(ErrorCode::CompileFailed,
           "there is no C++ compiler: HIPFLASH_CXX is unset and none of c++, g++, clang++ is on "
           "PATH");
    }
    return path;
  }

  Identity identify() override {
    const std::scoped_lock lock(mutex_);
    const std::string path = tool(), seen = fingerprint_of({path});
    if (is_known(seen)) return known_;
    const IdentityMemo memo = memo_of(path);
    auto found = memo.read();
    if (!found) {
      const std::string version = ask(path, "--version");
      found = {fmt::format("{}; {}", version, ask(path, "-dumpmachine")),
               fmt::format("{} ({})", path, version)};
      memo.write(*found);
    }
    return keep(seen, *std::move(found));
  }

  std::optional<Identity> known() override {
    const std::scoped_lock lock(mutex_);
    try {
      const std::string path = tool(), seen = fingerprint_of({path});
      if (is_known(seen)) return known_;
      if (auto found = memo_of(path).read()) return keep(seen, *std::move(found));
    } catch (const Error&) {  // there is no compiler
    }
    return std::nullopt;
  }

  std::vector<std::byte> compile(const CompileJob& job) override {
    std::optional<PrivateFolder> own;
    if (job.folder.empty()) own.emplace();
    const std::string& folder = own ? own->path() : job.folder;
    const std::string output = folder + "/kernel.so";
    ProcessRequest request;
    request.path = job.tool.empty() ? tool() : job.tool;
    // Input first: libraries among the options count for what comes before them.
    request.arguments = {"-x", "c++", "-"};
    request.arguments.insert(request.arguments.end(), job.options.begin(), job.options.end());
    request.arguments.insert(request.arguments.end(), {"-o", output});
    request.input = job.source;
    request.environment = compiler_environment(folder);
    request.limits = job.limits;
    request.stop = job.stop;
    request.own_group = !job.in_helper;
    const ProcessResult result = run_process(request);

    const std::string words = result.err + result.out;
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorCode::CompileFailed,
                  fmt::format("{}: the C++ compiler {} {}", job.label, request.path, what),
                  words.empty() ? "(the compiler printed nothing)" : words);
    };
    if (!result.ended_well()) refuse(how_it_ended(result, job.limits));
    std::ifstream file(output, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file || bytes.empty()) refuse("reported success and wrote no output");
    if (!is_shared_object(bytes)) refuse("wrote something that is not a shared object");
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    return {begin, begin + bytes.size()};
  }

 private:
  IdentityMemo memo_of(const std::string& path) const {
    std::error_code ignored;
    const std::string real = std::filesystem::canonical(path, ignored).string();
    return {speaks_for_another(real) ? "" : memo_dir_, {path, real}};
  }

  // Each compile starts what lies at the path then, so a program that was upgraded in place is
  // asked anew.
  bool is_known(const std::string& seen) const { return !seen.empty() && seen == known_as_; }

  const Identity& keep(const std::string& seen, Identity identity) {
    known_ = std::move(identity);
    known_as_ = seen;
    return known_;
  }

  const std::string memo_dir_;
  std::mutex mutex_;
  Identity known_;
  std::string known_as_;  // fingerprint_of() the program when it was asked
};

}  // namespace

std::vector<std::string> host_base_options() {
  // -nodefaultlibs keeps libstdc++ out, also for compilers without -nostdlib++.
  return {"-std=c++17",
          "-O3",
          "-fPIC",
          "-shared",
          "-fno-exceptions",
          "-fno-rtti",
          "-fno-math-errno",
          "-fno-trapping-math",
          "-ffp-contract=fast",
          "-fvisibility=hidden",
          "-fno-stack-protector",
          "-fno-plt",
          "-nodefaultlibs",
          "-lm",
          "-lc",
          "-lgcc"};
}

std::string find_host_compiler() {
  if (const std::string named = setting("HIPFLASH_CXX"); !named.empty()) {
    std::string path = named.find('/') == std::string::npos ? on_path(named) : named;
    if (path.empty() || !is_executable(path)) {
      fail(ErrorCode::CompileFailed, "HIPFLASH_CXX=\"{}\" is not a program that can be run", named);
    }
    return path;
  }
#ifdef HIPFLASH_BUILD_CXX
  if (is_executable(HIPFLASH_BUILD_CXX)) return HIPFLASH_BUILD_CXX;
#endif
  for (const char* name : {"c++", "g++", "clang++"}) {
    if (std::string path = on_path(name); !path.empty()) return path;
  }
  return {};
}

std::shared_ptr<Compiler> make_host_compiler(const std::string& memo_dir) {
  return std::make_shared<HostCompiler>(memo_dir);
}

}  // namespace hipflash::jit
