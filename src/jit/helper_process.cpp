#include "jit/helper_process.h"

#include <filesystem>

#include "core/fail.h"
#include "jit/helper_protocol.h"
#include "jit/installation.h"
#include "jit/private_folder.h"
#include "jit/process.h"

namespace hipflash::jit {
namespace {

constexpr const char* kName = "hipflash-compile";

// Sanitizers reserve terabytes of address space.
constexpr bool kLimitMemory =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

}  // namespace

std::string find_compile_helper() {
  if (std::string named = setting("HIPFLASH_COMPILE_HELPER"); !named.empty()) {
    if (!is_executable(named)) {
      fail(ErrorCode::CompileFailed,
           "HIPFLASH_COMPILE_HELPER=\"{}\" is not a program that can be run", named);
    }
    return named;
  }
  for (const std::filesystem::path& folder : {library_folder(), program_folder()}) {
    if (folder.empty()) continue;
    // Two levels up too: libraries lie in lib/<architecture> on some systems.
    for (const char* below :
         {".", "../libexec/hipflash", "../bin", "../../libexec/hipflash", "../../bin"}) {
      std::string path = (folder / below / kName).lexically_normal().string();
      if (is_executable(path)) return path;
    }
  }
  return {};
}

std::vector<std::byte> compile_in_helper(const std::string& helper, const CompileJob& job) {
  // Made here, so that it goes even if the helper is killed; the helper removes it if this process
  // is.
  const PrivateFolder folder;
  CompileJob with_folder = job;
  with_folder.folder = folder.path();
  const std::string message = encode(with_folder);
  ProcessRequest request;
  request.path = helper;
  request.input = message;
  // comgr has a disk cache of its own, keyed and trusted by its own rules: ours is the only one.
  request.environment = ProcessRequest::child_environment(
      {"AMD_COMGR_CACHE=0", "TMPDIR=" + folder.path()}, {"LD_PRELOAD"});
  request.limits = job.limits;
  request.stop = job.stop;
  if (!kLimitMemory) request.limits.memory_bytes = 0;
  const ProcessResult result = run_process(request);

  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::CompileFailed,
                fmt::format("{}: the {} compiler for {} {}", job.label, to_string(job.compiler),
                            job.arch, what),
                result.err.empty() ? "(the compiler printed nothing)" : result.err);
  };
  if (!result.ended_well()) refuse(how_it_ended(result, job.limits));
  if (result.out.empty()) refuse("ended without a result");
  CompileResult answer;
  try {
    answer = decode_result(result.out);
  } catch (const Error& error) {
    refuse(fmt::format("gave an answer that cannot be read: {} ({})", error.what(), helper));
  }
  if (!answer.ok) throw Error(ErrorCode::CompileFailed, answer.sentence, answer.log);
  if (answer.object.empty()) refuse("reported success and made no code");
  return std::move(answer.object);
}

}  // namespace hipflash::jit
