// hipflash tune.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "cli/commands.h"
#include "cli/npy.h"
#include "core/format.h"
#include "hipflash/tuning.h"

namespace hipflash::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first interrupt ends the run in order; a second one at once.
void interrupt(int number) {
  interrupted = 1;
  std::signal(number, SIG_DFL);
}

std::string time_left(double seconds) {
  if (seconds < 0) return {};
  const auto whole = std::lround(seconds);
  return whole >= 60 ? fmt::format(", about {} min {} s left", whole / 60, whole % 60)
                     : fmt::format(", about {} s left", whole);
}

Json to_json(const TuneSummary& summary) {
  return {{"problems", summary.problems},       {"tuned", summary.tuned},
          {"already", summary.already},         {"changed", summary.changed},
          {"quarantined", summary.quarantined}, {"failed", summary.failed},
          {"complete", summary.complete},       {"store", summary.store}};
}

std::string to_text(const TuneSummary& summary) {
  std::string text = fmt::format(
      "{} problems: {} measured, in {} of them another config than the default is faster; {} were "
      "tuned before\n",
      summary.problems, summary.tuned, summary.changed, summary.already);
  if (summary.quarantined > 0) {
    text += fmt::format("{} configs were wrong, crashed or hung and will not be used\n",
                        summary.quarantined);
  }
  if (summary.failed > 0) {
    text += fmt::format("{} problems could not be measured\n", summary.failed);
  }
  if (!summary.complete) text += "stopped before the end: the same command goes on from here\n";
  return text + fmt::format("results  {}\n", summary.store);
}

std::string name_of(const Problem& p) {
  return fmt::format("{} b{} h{} s{}x{} d{}{}", to_string(p.dtype), p.batch, p.heads_q, p.seq_q,
                     p.seq_k, p.head_dim, p.causal ? " causal" : "");
}

Json to_json(const TuneCheck& check) {
  Json rows = Json::array();
  for (const TuneCheck::Row& row : check.rows) {
    rows.push_back({{"problem", name_of(row.problem)},
                    {"config", row.config},
                    {"default", row.is_default},
                    {"default_ms", row.default_ms},
                    {"ratio", {row.ratio, row.low, row.high}}});
  }
  return rows;
}

std::string to_text(const TuneCheck& check) {
  std::string text = fmt::format("{:36} {:>10} {:>24}  {}\n", "size that was not tuned",
                                 "default ms", "tuned / default", "config");
  std::vector<double> ratios;
  std::size_t slower = 0;
  for (const TuneCheck::Row& row : check.rows) {
    ratios.push_back(row.ratio);
    slower += row.low > 1.0;
    text +=
        row.is_default
            ? fmt::format("{:36} {:>10} {:>24}  default\n", name_of(row.problem), "", "")
            : fmt::format("{:36} {:>10.4f} {:>7.3f} ({:.3f} to {:.3f})  {}\n", name_of(row.problem),
                          row.default_ms, row.ratio, row.low, row.high, row.config);
  }
  if (!check.complete) text += "stopped before the end: not all of these sizes were measured\n";
  if (ratios.empty()) return text;
  std::sort(ratios.begin(), ratios.end());
  return text + fmt::format(
                    "median ratio {:.3f}, best {:.3f}, worst {:.3f}; slower with confidence: "
                    "{} of {}\n",
                    ratios[ratios.size() / 2], ratios.front(), ratios.back(), slower,
                    ratios.size());
}

}  // namespace

int tune_device(const TuneCliOptions& options) {
  Progress progress;
  TuneOptions tuning;
  tuning.full = options.full;
  tuning.again = options.again;
  tuning.budget_minutes = options.budget_minutes;
  tuning.shapes_file = options.shapes;
  tuning.progress = [&](const TuneProgress& at) {
    progress.show(
        fmt::format("{} of {}: {}{}", at.done, at.total, at.now, time_left(at.seconds_left)));
  };
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  tuning.stop = [] { return interrupted != 0; };

  if (!options.shapes.empty()) require_readable(options.shapes);
  if (!options.report.empty()) require_writable(options.report);  // not after all the measuring
  const DeviceId device = device_or_default(options.device);
  const ContextOptions context = context_options(options.threads);
  const bool only_looks = (options.check || !options.report.empty()) && !options.quick &&
                          !options.full && options.shapes.empty() && !options.again &&
                          options.budget_minutes <= 0;
  Json json = Json::object();
  std::string text;
  int exit_code = 0;
  if (!only_looks) {
    Context ctx(device, context);
    const TuneSummary summary = tune(ctx, tuning);
    json["tuning"] = to_json(summary);
    text += to_text(summary);
    const bool nothing_worked = summary.failed > 0 && summary.tuned + summary.already == 0;
    if (interrupted || nothing_worked) exit_code = 1;
  }
  Context ctx(device, context);  // with what was just tuned
  if (options.check) {
    tuning.shapes_file.clear();
    const TuneCheck check = check_tuning(ctx, tuning);
    json["check"] = to_json(check);
    json["check_complete"] = check.complete;
    if (!check.complete) exit_code = 1;
    text += to_text(check);
  }
  progress.show("");
  if (!options.report.empty()) {
    if (!options.json) print(std::exchange(text, {}));  // the report may find nothing to show
    const std::string page = tuning_report(ctx);
    write_file(options.report, {std::as_bytes(std::span(page.data(), page.size()))});
    json["report"] = options.report;
    text += tuning_table(ctx) + fmt::format("report   {}\n", options.report);
  }
  if (options.json) {
    print_json(json);
  } else {
    print(text);
  }
  return exit_code;
}

}  // namespace hipflash::cli
