/// \file
/// Context: a device with its caches and settings. Plan: what solves one Problem there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hipflash/cache.h"
#include "hipflash/device.h"
#include "hipflash/error.h"
#include "hipflash/problem.h"

namespace hipflash {

/// What a call does while the kernel made for it is being compiled.
enum class WhileCompiling : int {
  wait = 0,     ///< Waits. The default.
  general = 1,  ///< Takes the family's general kernel if that is in the cache or prebuilt.
};

/// A pack in memory, such as one that is embedded in the application.
struct PackData {
  const void* data = nullptr;  ///< Stays valid and unchanged as long as the Context lives.
  std::size_t bytes = 0;
};

/// Settings of a Context. Empty or 0 means: what the environment says, else the default.
/// The environment variables are described in README.md.
struct ContextOptions {
  std::string cache_dir;              ///< Instead of HIPFLASH_CACHE_DIR.
  bool use_disk_cache = true;         ///< False: memory only.
  std::vector<std::string> prebuilt;  ///< Packs and folders, searched before HIPFLASH_PREBUILT.
  int threads = 0;                    ///< CPU only: threads to use; 0: one per available CPU.
  std::string cpu_isa;                ///< CPU only, instead of HIPFLASH_CPU_ISA.
  std::vector<PackData> packs;        ///< Packs in memory, searched before `prebuilt`.
  /// With `general`, a call whose specialized kernel must be compiled is served by the general one
  /// (as accurate, slower) and the compile goes on in the background; once it is done,
  /// Context::plan and attention_forward take the specialized one. A Plan that is held stays what
  /// it is. If the compile fails, that is logged as an error and the general kernel serves on. On
  /// GPUs one serves a type at its head dimensions and alignment; batch-invariant calls wait. See
  /// README.md.
  WhileCompiling while_compiling = WhileCompiling::wait;
};

/// How often a Context looked for a tuned tile config (hipflash/tuning.h), and what it found.
struct TuningStats {
  std::uint64_t exact = 0;      ///< Tuned for this card, these head dimensions and about this size.
  std::uint64_t neighbour = 0;  ///< Tuned for something near: a size, head dimension or card.
  std::uint64_t missing = 0;    ///< Nothing near is tuned: the built-in default serves.
};

/// Which kernel a Problem takes and why.
struct Explanation {
  std::string device;  ///< "cpu", "hip:0", ...
  std::string arch;
  std::string family;  ///< Kernel family.
  std::string config;  ///< The tile config, as "name=value" pairs.
  std::string reason;  ///< Why this family and config.
  std::string key;     ///< Hex key of the code object.
  std::string tier;    ///< Where the code object is now: memory, disk, prebuilt, or "none: ..." .
  std::int64_t work_items = 0;      ///< GPU blocks or CPU work items.
  int splits = 1;                   ///< Parts that the keys are split into.
  std::size_t workspace_bytes = 0;  ///< Memory beyond inputs and outputs.

  /// Several lines for people.
  HIPFLASH_EXPORT std::string text() const;
};

/// Solves one Problem on one device. Cheap to copy; valid as long as any copy lives, also after its
/// Context is gone. run() never compiles, waits for the device or takes a lock that blocks.
///
/// A graph that recorded runs of a plan, or calls of functions that take a Context, stays good when
/// the plan and the Context are gone, as long as the process lives and the tensors do: their
/// kernels stay loaded (one copy of each), and so does a word of memory for each such Context.
/// Context::take_fault() of that Context tells what replays found wrong.
class HIPFLASH_EXPORT Plan {
 public:
  /// Runs on `stream` (on the CPU: now). All pointers must be of this plan's Problem and device.
  /// \throws Error InvalidArgument for a null or misaligned pointer; LaunchFailed.
  void run(const TensorPointers& tensors, Stream stream = {}) const;

  const Problem& problem() const noexcept;
  /// How the kernel was found when the plan was made.
  Tier tier() const noexcept;
  double compile_ms() const noexcept;  ///< Spent compiling for the plan; 0 if the code was found.
  double load_ms() const noexcept;     ///< Spent loading its code; 0 if it was loaded already.
  const Explanation& explanation() const noexcept;

  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) noexcept;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A device, its caches and settings. Thread-safe. Making one touches no device memory.
///
/// ```
/// hipflash::Context ctx(hipflash::parse_device("hip:0"));
/// hipflash::Plan plan = ctx.plan(problem);     // may compile
/// for (...) plan.run(pointers, stream);        // only launches
/// ```
class HIPFLASH_EXPORT Context {
 public:
  /// On default_device(). \throws Error InvalidArgument for malformed settings.
  Context();
  /// \throws Error NoDevice if the device is not there, with the reason; CacheUnusable for a pack
  ///         of the options that is damaged or not signed by a trusted key.
  explicit Context(DeviceId device, const ContextOptions& options = {});
  /// On a GPU it waits for the work of the device, so it must not happen while a stream of that
  /// device records a graph; nor must the end of the last Plan of a Context that is gone. Making
  /// many plans may wait too, when kernels that are no longer kept go.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// What it is about: name, architecture, memory. Valid as long as the Context.
  const DeviceInfo& device() const;

  /// The plan for a Problem; made once and remembered. May compile.
  /// \param stream What the plan will run on, if known: while it records a graph, a plan that is
  ///        not there yet is an error, since making one would break the recording.
  /// \throws Error InvalidArgument, NotSupported, CompileFailed.
  Plan plan(const Problem& problem, Stream stream = {});

  /// Which kernel the Problem takes, why, and where its code is, without compiling anything.
  /// \throws Error InvalidArgument, NotSupported as plan() would.
  Explanation explain(const Problem& problem);

  /// Called for each finished problem of prefetch(): how many are done, of how many, and the error
  /// of this one or null. Called from other threads, one call at a time; what it throws is logged
  /// and goes no further. It must not destroy the Context, but may be its last owner.
  using Progress = std::function<void(std::size_t done, std::size_t total, const Error* error)>;

  /// Makes the plans of all problems in the background, compiling on all cores, and returns at
  /// once. `ctx.prefetch(problems); load_weights(); ctx.wait_prefetch();`
  /// \throws Error InvalidArgument if one of them breaks a rule; nothing is compiled then. Whatever
  ///         else fails is told to `progress` and logged, and the others go on.
  void prefetch(std::vector<Problem> problems, Progress progress = {});
  /// Waits until everything asked of prefetch() is done, also what callbacks asked for meanwhile.
  /// \throws Error InvalidArgument if a callback calls it.
  void wait_prefetch();

  /// From now on a compile is an error (NotSupported), also in prefetch(), which HIPFLASH_STRICT=1
  /// allows.
  void seal() noexcept;

  /// How often code was found in each tier, and what was compiled, since this Context was made.
  CacheStats cache_stats() const;

  /// What kernels found wrong since the last call with lengths, offsets and tables that only they
  /// could see, as a sentence, or "" if nothing. Waits for the device and forgets the fault. The
  /// rows concerned are NaN. On the CPU calls check before they compute, so there is never a fault.
  /// `if (std::string fault = ctx.take_fault(); !fault.empty()) ...`
  std::string take_fault();

  /// How many plans found a tuned config for their size, for a size nearby, or none.
  TuningStats tuning_stats() const;

  struct Impl;
  Impl& impl() noexcept { return *impl_; }  ///< For hipflash's own functions.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hipflash
