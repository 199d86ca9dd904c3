#include "jit/compiler.h"

#include <mutex>

#include "core/fail.h"
#include "core/log.h"
#include "core/seconds_setting.h"
#include "jit/helper_process.h"
#include "jit/hiprtc_compiler.h"
#include "jit/host_compiler.h"
#include "jit/nvrtc_compiler.h"

namespace hipflash::jit {
namespace {

// Compiles through hipflash-compile; the identity is found here, without a process.
class HelperCompiler : public Compiler {
 public:
  HelperCompiler(std::shared_ptr<Compiler> local, bool may_fall_back)
      : local_(std::move(local)), may_fall_back_(may_fall_back) {}

  CompilerKind kind() const noexcept override { return local_->kind(); }
  Identity identify() override { return local_->identify(); }
  std::optional<Identity> known() override { return local_->known(); }
  std::string tool() override { return local_->tool(); }

  std::vector<std::byte> compile(const CompileJob& job) override {
    const std::string helper = find_compile_helper();
    if (!helper.empty()) {
      CompileJob with_tool = job;
      with_tool.tool = local_->tool();
      return compile_in_helper(helper, with_tool);
    }
    if (!may_fall_back_) {
      fail(ErrorCode::CompileFailed,
           "{} needs the program hipflash-compile, which is neither beside the library nor in "
           "../libexec/hipflash or ../bin of there; set HIPFLASH_COMPILE_HELPER to its path, or "
           "HIPFLASH_COMPILE=inline to compile in this process",
           job.label);
    }
    static std::once_flag once;
    std::call_once(once, [] {
      log(LogLevel::warn,
          "hipflash-compile was not found; the C++ compiler is started by this process instead "
          "(HIPFLASH_COMPILE_HELPER names it, HIPFLASH_COMPILE=inline makes this silent)");
    });
    return local_->compile(job);
  }

 private:
  const std::shared_ptr<Compiler> local_;
  const bool may_fall_back_;
};

// Starts nothing and opens no library, not even to ask what the compiler is.
class NoCompiler : public Compiler {
 public:
  explicit NoCompiler(std::shared_ptr<Compiler> local) : local_(std::move(local)) {}
  CompilerKind kind() const noexcept override { return local_->kind(); }
  Identity identify() override {
    if (auto found = known()) return *std::move(found);
    fail(ErrorCode::NotSupported,
         "HIPFLASH_COMPILE=never forbids asking the {} compiler what it is", to_string(kind()));
  }
  std::optional<Identity> known() override { return local_->known(); }
  std::string tool() override { return local_->tool(); }
  std::vector<std::byte> compile(const CompileJob& job) override {
    fail(ErrorCode::NotSupported, "HIPFLASH_COMPILE=never forbids compiling {}", job.label);
  }

 private:
  const std::shared_ptr<Compiler> local_;
};

}  // namespace

const char* to_string(CompilerKind kind) noexcept {
  switch (kind) {
    case CompilerKind::host:
      return "host";
    case CompilerKind::hiprtc:
      return "hiprtc";
    case CompilerKind::nvrtc:
      return "nvrtc";
  }
  return "unknown compiler";
}

CompileLimits compile_limits_setting() {
  CompileLimits limits;
  limits.memory_bytes = size_setting("HIPFLASH_COMPILE_MEMORY", limits.memory_bytes);
  limits.seconds = seconds_setting("HIPFLASH_COMPILE_TIMEOUT", limits.seconds);
  return limits;
}

std::shared_ptr<Compiler> make_inline_compiler(CompilerKind kind, const std::string& memo_dir) {
  switch (kind) {
    case CompilerKind::host:
      return make_host_compiler(memo_dir);
    case CompilerKind::hiprtc:
      return make_hiprtc_compiler(memo_dir);
    case CompilerKind::nvrtc:
      return make_nvrtc_compiler(memo_dir);
  }
  fail(ErrorCode::Internal, "compiler kind {} is unknown", static_cast<int>(kind));
}

std::shared_ptr<Compiler> make_compiler(CompilerKind kind, CompileMode mode,
                                        const std::string& memo_dir) {
  auto local = make_inline_compiler(kind, memo_dir);
  switch (mode) {
    case CompileMode::in_process:
      return local;
    case CompileMode::never:
      return std::make_shared<NoCompiler>(std::move(local));
    case CompileMode::automatic:
      return std::make_shared<HelperCompiler>(std::move(local), kind == CompilerKind::host);
    case CompileMode::process:
      return std::make_shared<HelperCompiler>(std::move(local), false);
  }
  fail(ErrorCode::Internal, "compile mode {} is unknown", static_cast<int>(mode));
}

}  // namespace hipflash::jit
