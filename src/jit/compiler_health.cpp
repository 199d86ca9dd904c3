#include "jit/compiler_health.h"

#include <algorithm>
#include <set>

#include "core/fail.h"
#include "core/log.h"
#include "core/settings.h"

namespace hipflash::jit {
namespace {

constexpr std::chrono::seconds kRemember{30};
// A compiler that takes longer for an empty function is as good as none.
constexpr double kProbeSeconds = 20.0;

const char* probe_source(CompilerKind kind) {
  return kind == CompilerKind::host ? "extern \"C\" int hipflash_probe() { return 0; }\n"
                                    : "extern \"C\" __global__ void hipflash_probe() {}\n";
}

}  // namespace

CompilerHealth::CompilerHealth(std::shared_ptr<Compiler> compiler, bool may_compile)
    : compiler_(std::move(compiler)), may_compile_(may_compile) {}

bool CompilerHealth::recent(const Finding& finding) {
  return Clock::now() - finding.when < kRemember;
}

Identity CompilerHealth::identify() {
  const std::scoped_lock lock(mutex_);  // held while asking, so that one thread asks for all
  if (not_identified_ && recent(*not_identified_)) throw Error(*not_identified_->error);
  try {
    Identity identity = compiler_->identify();
    not_identified_.reset();
    return identity;
  } catch (const Error& error) {
    not_identified_ = Finding{Clock::now(), error};
    announce(error);
    throw;
  }
}

std::optional<Error> CompilerHealth::trouble(const std::string& arch) {
  const std::scoped_lock lock(mutex_);
  const auto at = by_arch_.find(arch);
  return at != by_arch_.end() && recent(at->second) ? at->second.error : std::nullopt;
}

bool CompilerHealth::works(const CompileJob& job) {
  const std::scoped_lock one_for_all(probing_);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto at = by_arch_.find(job.arch); at != by_arch_.end() && recent(at->second)) {
      return !at->second.error;
    }
  }
  CompileJob probe = job;
  probe.source = probe_source(job.compiler);
  probe.label = fmt::format("an empty function for {}", job.arch);
  probe.limits.seconds = std::min(probe.limits.seconds, kProbeSeconds);
  probe.stop = {};  // what it finds is for others too
  Finding finding{Clock::now(), std::nullopt};
  try {
    compiler_->compile(probe);
  } catch (const Error& error) {
    finding.error = error;
    announce(error);
  }
  finding.when = Clock::now();
  const std::scoped_lock lock(mutex_);
  by_arch_[job.arch] = finding;
  return !finding.error;
}

// Once per process and sentence. That there is no compiler is no news on a machine without one,
// unless somebody named it.
void CompilerHealth::announce(const Error& error) const {
  if (!may_compile_) return;
  try {
    (void)compiler_->tool();
  } catch (const Error&) {
    if (compiler_->kind() != CompilerKind::host || setting("HIPFLASH_CXX").empty()) return;
  }
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  {
    const std::scoped_lock lock(mutex);
    if (!said->insert(error.what()).second) return;
  }
  const std::string words = error.log().empty() ? "" : "\n" + error.log();
  // What the compiler knows instead is said where nothing serves, in that error.
  const std::string sentence = error.what();
  log(LogLevel::warn,
      "the compiler does not work, so stored kernels serve where there are any: {}{}",
      sentence.substr(0, sentence.find(kWhichKnows)), words);
}

}  // namespace hipflash::jit
