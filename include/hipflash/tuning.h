/// \file
/// Tuning: measuring which tile config serves a Problem best on this machine, once, and keeping it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "hipflash/context.h"

namespace hipflash {

/// How far a tune() is.
struct TuneProgress {
  std::size_t done = 0, total = 0;  ///< Problems.
  std::string now;                  ///< What is being done, for people.
  double seconds_left = -1;         ///< Estimated; negative while nothing is known.
};

/// What to tune and for how long.
struct TuneOptions {
  bool full = false;          ///< More problems, configs and samples.
  double budget_minutes = 0;  ///< 0: no limit. What is measured by then is kept.
  /// A workload (hipflash/workload.h) to tune for; empty: a built-in list. Lines that hold an
  /// operation are skipped: operations have no tile configs.
  std::string shapes_file;
  bool again = false;    ///< Measure what is tuned, or in quarantine, once more.
  double margin = 0.02;  ///< Another config must be so much faster than the built-in default.
  std::function<void(const TuneProgress&)> progress;  ///< Called often, from the caller's thread.
  std::function<bool()> stop;                         ///< True ends the run in order, soon.
};

/// What a tune() did.
struct TuneSummary {
  std::size_t problems = 0;     ///< Asked for.
  std::size_t tuned = 0;        ///< Measured now.
  std::size_t already = 0;      ///< Tuned before, by this or another process.
  std::size_t changed = 0;      ///< Of those measured now: another config than the default won.
  std::size_t quarantined = 0;  ///< Configs that were wrong, crashed or hung.
  std::size_t failed = 0;       ///< Problems that could not be measured; the log says why.
  bool complete = false;        ///< False: stopped, or out of time; a next run goes on from there.
  std::string store;            ///< The file with the results.
};

/// Measures tile configs on the context's device and stores the best: HIPFLASH_TUNING, else
/// ~/.local/share/hipflash/tuning. Each config is first checked against a float64 reference, in a
/// process of its own; one that is wrong, crashes or hangs (its first run takes longer than
/// HIPFLASH_MEASURE_TIMEOUT, 60 seconds) is never used again. Contexts made from then on use the
/// results; one that exists does not change, so that its plans agree. When another process tunes
/// the device already, this one waits and takes over what that one found: the ranks of a job may
/// all call it before they make their contexts.
///
/// ```
/// hipflash::Context ctx(hipflash::parse_device("hip:0"));
/// hipflash::TuneOptions options;
/// options.budget_minutes = 10;
/// hipflash::tune(ctx, options);
/// ```
/// \throws Error CacheUnusable if the store cannot be written; NotSupported without the helper
///         program; InvalidArgument for a shapes file that cannot be read, or if HIPFLASH_TUNING is
///         `off`.
HIPFLASH_EXPORT TuneSummary tune(Context& ctx, const TuneOptions& options = {});

/// Tuned configs against built-in defaults at sizes between those that were tuned.
struct TuneCheck {
  struct Row {
    Problem problem;
    std::string config;        ///< What the store chooses, as "name=value" pairs.
    bool is_default = false;   ///< It is the built-in default: nothing to compare.
    double ratio = 1;          ///< Time of the tuned config over that of the default: median,
    double low = 1, high = 1;  ///< and its 95% confidence interval.
    double default_ms = 0;
  };
  std::vector<Row> rows;
  bool complete = false;  ///< False: stopped, or out of time; `rows` are those measured by then.
};
/// Measures them in turn, in one process. \throws Error as tune().
HIPFLASH_EXPORT TuneCheck check_tuning(Context& ctx, const TuneOptions& options = {});

/// All measurements of the context's device as one HTML page with plots, for any browser, without
/// network. \throws Error CacheUnusable if nothing was measured.
HIPFLASH_EXPORT std::string tuning_report(Context& ctx);

/// The same as a table of text, a line for each problem: default and chosen config, the speed of
/// the chosen one over the default's with its 95% confidence interval, and the samples that this
/// rests on. \throws Error as tuning_report().
HIPFLASH_EXPORT std::string tuning_table(Context& ctx);

}  // namespace hipflash
