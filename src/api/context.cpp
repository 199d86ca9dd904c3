#include "hipflash/context.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "api/check.h"
#include "api/context_impl.h"
#include "api/planning.h"
#include "api/recorder.h"
#include "autotune/store.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/settings.h"
#include "plan/gpu_plan.h"
#include "platform/cpu/cpu_device.h"

namespace hipflash {
namespace {

constexpr std::size_t kMaxPlans = 4096;

Explanation explanation_of(const plan::KernelPlan& plan, DeviceId device) {
  Explanation why;
  why.device = to_string(device);
  why.arch = plan.spec.arch;
  why.family = plan.spec.family;
  why.config = plan.config;
  why.reason = plan.reason + "; " + plan.spec.label;
  why.work_items = plan.work_items;
  why.splits = plan.args.splits;
  why.workspace_bytes = plan.workspace_bytes;
  return why;
}

bool may_be_general(Platform platform, const Problem& problem) noexcept {
  return platform == Platform::cpu || plan::general_may_serve(problem);
}

Explanation empty_explanation(const std::string& arch, DeviceId device) {
  Explanation why;
  why.device = to_string(device);
  why.arch = arch;
  why.family = "none";
  why.reason = "the problem is empty: nothing is launched";
  why.tier = "none";
  return why;
}

}  // namespace

Context::Impl::Impl(DeviceId id, const ContextOptions& options)
    : provider(api::provider_options(options)),
      id_(id),
      options_(options),
      device_(api::open_device(id, options)),
      verify_(bool_setting("HIPFLASH_VERIFY")),
      tuned_(autotune::fingerprint_of(device_->facts())),
      modules_(provider),
      plans_({.count = kMaxPlans}),
      operations_({.count = kMaxPlans}),
      meanwhile_([this, on = options.while_compiling == WhileCompiling::general] {
        return std::make_unique<Meanwhile>(
            on, [this](const Problem& problem) { make_special_plan(problem); });
      }) {
  // The first line also says what is wrong with the settings of the log, if anything is.
  log(LogLevel::debug, "context on {} ({})", to_string(id_), device_->facts().arch);
  std::vector<std::string> packed;
  for (auto& document : provider.tuning_documents()) packed.push_back(std::move(document.text));
  std::reverse(packed.begin(), packed.end());  // where two speak of the same, the later counts
  autotune::load_table(tuned_, packed);
}

Context::Impl::~Impl() {
  join_prefetchers();
}

const DeviceInfo& Context::Impl::info() {
  std::call_once(info_made_, [this] {
    const platform::DeviceFacts& facts = device_->facts();
    info_.id = id_;
    info_.name = facts.name;
    info_.arch = facts.arch;
    info_.compute_units = facts.compute_units;
    info_.memory_bytes = facts.memory_bytes;
    info_.notes = facts.notes;
    const jit::CompilerState compiler = provider.compiler_state(compiler_kind());
    info_.compiler = compiler.description;
    if (!compiler.available) {
      info_.notes.push_back("no compiler (" + compiler.trouble + "): prebuilt kernels serve");
    }
  });
  return info_;
}

jit::CompilerKind Context::Impl::compiler_kind() const noexcept {
  switch (id_.platform) {
    case Platform::hip:
      return jit::CompilerKind::hiprtc;
    case Platform::cuda:
      return jit::CompilerKind::nvrtc;
    case Platform::cpu:
      break;
  }
  return jit::CompilerKind::host;
}

plan::KernelPlan Context::Impl::plan_here(const Problem& problem, const plan::TileSource* tuned,
                                          plan::Kernel kernel) const {
  if (id_.platform != Platform::cpu) {
    return plan::plan_gpu(problem, device_->facts(), tuned, kernel);
  }
  const CpuIsa isa = static_cast<const platform::CpuDevice&>(*device_).isa();
  return plan::plan_cpu(problem, isa, device_->facts().compute_units, kernel, tuned);
}

plan::KernelPlan Context::Impl::choose(const Problem& problem) {
  plan::KernelPlan special = plan_here(problem, &tuned_, plan::Kernel::specialized);
  if (provider.find(special.spec)) return special;
  // What was shipped for a machine without a compiler may know nothing of its tuning.
  if (!special.tile.is_default) {
    plan::KernelPlan standard = plan_here(problem, nullptr, plan::Kernel::specialized);
    if (provider.find(standard.spec)) return standard;
  }
  // A sealed context is for serving: there the missing kernel is to be seen, not replaced.
  if (!may_be_general(id_.platform, problem) || provider.sealed() || provider.options().strict) {
    return special;
  }
  plan::KernelPlan general = plan_here(problem, nullptr, plan::Kernel::general);
  return provider.find(general.spec) ? general : special;
}

std::shared_ptr<Plan::Impl> Context::Impl::make_plan(const Problem& problem) {
  auto made = std::make_shared<Plan::Impl>();
  made->problem = problem;
  made->device = id_;
  made->verify = verify_;
  made->empty = api::is_empty(problem);
  if (made->empty) {
    made->explanation = empty_explanation(device_->facts().arch, id_);
    return made;
  }
  api::record({device_->facts().arch, device_->facts().compute_units, problem});
  plan::KernelPlan chosen = choose(problem);
  const jit::LoadedModule loaded = load(problem, &chosen);
  finish(*made, chosen, loaded);
  return made;
}

void Context::Impl::finish(Plan::Impl& plan, const plan::KernelPlan& chosen,
                           const jit::LoadedModule& loaded) const {
  Plan::Impl* const made = &plan;
  made->args = chosen.args;
  made->footprints = api::footprints_of(made->problem);
  made->runner = device_->prepare(loaded.module, chosen.launch);
  made->tier = loaded.tier;
  made->compile_ms = loaded.compile_ms;
  made->load_ms = loaded.load_ms;
  made->explanation = explanation_of(chosen, id_);
  made->explanation.key = loaded.key;
  made->explanation.tier = to_string(made->tier);
}

jit::LoadedModule Context::Impl::load(const Problem& problem, plan::KernelPlan* chosen) {
  for (;;) {
    try {
      return modules_.get(*device_, chosen->spec);
    } catch (const jit::MissingCode& missing) {
      // A compiler that turned out not to work during this call: what is stored may serve.
      plan::KernelPlan other = choose(problem);
      if (other.spec == chosen->spec) {
        throw Error(missing.code(),
                    fmt::format("{}. `{}` makes a pack of it, for HIPFLASH_PREBUILT or `hipflash "
                                "pack install`",
                                missing.what(), command_for(problem, *chosen)),
                    missing.log());
      }
      *chosen = std::move(other);
    }
  }
}

std::string Context::Impl::command_for(const Problem& problem,
                                       const plan::KernelPlan& chosen) const {
  return api::pack_command(problem, chosen.spec, device_->facts().compute_units);
}

// The general kernel's plan, if the specialized one would have to be compiled first.
std::shared_ptr<Plan::Impl> Context::Impl::make_general_plan(const Problem& problem) {
  if (!may_be_general(id_.platform, problem) || provider.sealed()) return nullptr;
  api::check_problem(problem);
  if (api::is_empty(problem)) return nullptr;
  const plan::KernelPlan special = plan_here(problem, &tuned_, plan::Kernel::specialized);
  if (provider.find(special.spec) != Tier::compiled) return nullptr;
  plan::KernelPlan general = plan_here(problem, nullptr, plan::Kernel::general);
  const auto tier = provider.find(general.spec);
  if (!tier || *tier == Tier::compiled) return nullptr;
  api::record({device_->facts().arch, device_->facts().compute_units, problem});
  general.reason = "general kernel while the specialized one is compiled";
  auto made = std::make_shared<Plan::Impl>();
  made->problem = problem;
  made->device = id_;
  made->verify = verify_;
  finish(*made, general, modules_.get(*device_, general.spec));
  provider.get_async(special.spec);  // on any core, whatever else is under way
  return made;
}

std::shared_ptr<Plan::Impl> Context::Impl::plan(const Problem& problem, Stream stream) {
  if (auto known = plans_.find(problem)) return known;
  if (device_->capturing(stream)) {
    fail(ErrorCode::InvalidArgument,
         "stream = {} records a graph, and this problem has no plan yet: make it before the "
         "recording, with Context::plan or by a call outside of it",
         fmt::ptr(stream.handle));
  }
  if (auto serving = meanwhile_->plan(
          problem, [this](const Problem& wanted) { return make_general_plan(wanted); })) {
    return serving;
  }
  return make_special_plan(problem);
}

std::shared_ptr<Plan::Impl> Context::Impl::make_special_plan(const Problem& problem) {
  using Plans = decltype(plans_);
  return plans_.get(problem, [&]() -> Plans::Sized {
    api::check_problem(problem);
    return {make_plan(problem), 1};
  });
}

std::string Context::Impl::tier_text(const jit::Spec& spec) {
  const auto tier = provider.find(spec);
  if (!tier) return "none: no such kernel is stored and compiling is off or impossible";
  if (*tier == Tier::compiled) return "none: the first call compiles it";
  return to_string(*tier);
}

Explanation Context::Impl::explain(const Problem& problem) {
  api::check_problem(problem);
  if (api::is_empty(problem)) return empty_explanation(device_->facts().arch, id_);
  const plan::KernelPlan chosen = choose(problem);
  Explanation why = explanation_of(chosen, id_);
  why.key = provider.key(chosen.spec);
  why.tier = tier_text(chosen.spec);
  if (!provider.find(chosen.spec)) {
    why.tier += fmt::format("; `{}` makes a pack of it", command_for(problem, chosen));
  }
  return why;
}

void Context::Impl::prefetch(std::vector<Problem> problems, Progress progress) {
  for (const Problem& problem : problems) api::check_problem(problem);
  const std::lock_guard lock(prefetch_mutex_);
  prefetchers_.emplace_back([this, problems = std::move(problems), progress = std::move(progress)] {
    prefetch_here(problems, progress);
    const std::lock_guard ended(prefetch_mutex_);
    --prefetching_;
    prefetch_ended_.notify_all();
  });
  ++prefetching_;
}

void Context::Impl::prefetch_here(const std::vector<Problem>& problems, const Progress& progress) {
  // All compiles are under way before the first is waited for. A problem that no plan can be made
  // of has none; its plan() below says why.
  std::vector<std::shared_future<jit::CodeObject>> compiles(problems.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (api::is_empty(problems[i])) continue;
    try {
      compiles[i] = provider.get_async(choose(problems[i]).spec);
    } catch (const std::exception&) {
    }
  }
  const auto make = [&](std::size_t i) {
    try {
      if (compiles[i].valid()) compiles[i].get();
    } catch (const Error& error) {  // what is not allowed plan() says with what would help
      if (error.code() != ErrorCode::NotSupported) throw;
    }
    plan(problems[i]);
  };
  for (std::size_t i = 0; i < problems.size(); ++i) {
    std::optional<Error> error;
    try {
      make(i);
    } catch (const Error& caught) {
      error = caught;
    } catch (const std::exception& caught) {
      error = Error(ErrorCode::Internal, caught.what());
    }
    if (error) log(LogLevel::warn, "prefetch: {}", error->what());
    try {
      if (progress) progress(i + 1, problems.size(), error ? &*error : nullptr);
    } catch (const std::exception& thrown) {
      log(LogLevel::error, "prefetch: the progress callback threw: {}", thrown.what());
    } catch (...) {
      log(LogLevel::error, "prefetch: the progress callback threw something");
    }
  }
}

void Context::Impl::wait_prefetch() {
  std::unique_lock lock(prefetch_mutex_);
  for (const std::thread& thread : prefetchers_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      fail(ErrorCode::InvalidArgument,
           "wait_prefetch() is called by a progress callback, whose end it would wait for");
    }
  }
  lock.unlock();
  join_prefetchers();
}

void Context::Impl::join_prefetchers() {
  std::unique_lock lock(prefetch_mutex_);
  prefetch_ended_.wait(lock, [this] { return prefetching_ == 0; });
  std::vector<std::thread> ended;
  ended.swap(prefetchers_);
  lock.unlock();
  for (std::thread& thread : ended) {
    // The last owner of a Context may be a callback, which goes with its thread.
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

Context::Context() : Context(default_device()) {}
Context::Context(DeviceId device, const ContextOptions& options)
    : impl_(std::make_unique<Impl>(device, options)) {}
Context::~Context() = default;

const DeviceInfo& Context::device() const {
  return impl_->info();
}
Plan Context::plan(const Problem& problem, Stream stream) {
  return Plan(impl_->plan(problem, stream));
}
Explanation Context::explain(const Problem& problem) {
  return impl_->explain(problem);
}
void Context::prefetch(std::vector<Problem> problems, Progress progress) {
  impl_->prefetch(std::move(problems), std::move(progress));
}
void Context::wait_prefetch() {
  impl_->wait_prefetch();
}
void Context::seal() noexcept {
  impl_->provider.seal();
}

TuningStats Context::tuning_stats() const {
  const autotune::TuningTable::Counts counts = impl_->tuned().counts();
  return {counts.exact, counts.neighbour, counts.missing};
}

CacheStats Context::cache_stats() const {
  const jit::ProviderCounters counters = impl_->provider.counters();
  CacheStats stats;
  stats.memory_hits = counters.memory_hits;
  stats.disk_hits = counters.disk_hits;
  stats.prebuilt_hits = counters.prebuilt_hits;
  stats.compiles = counters.compiles;
  stats.evictions = counters.evictions;
  return stats;
}

}  // namespace hipflash
