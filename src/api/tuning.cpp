#include "hipflash/tuning.h"

#include "api/context_impl.h"
#include "autotune/tuner.h"
#include "core/fail.h"
#include "core/seconds_setting.h"
#include "hipflash/workload.h"
#include "platform/cpu/isa.h"

namespace hipflash {
namespace {

autotune::TunerSetup setup_of(Context::Impl& ctx) {
  if (autotune::tuning_is_off()) {
    fail(ErrorCode::InvalidArgument, "HIPFLASH_TUNING=\"off\" must name a folder to tune");
  }
  autotune::TunerSetup setup;
  setup.facts = ctx.device().facts();
  setup.device = ctx.id();
  setup.context = ctx.options();
  if (setup.facts.kind == platform::Kind::cpu) setup.context.threads = setup.facts.compute_units;
  setup.planner = [&ctx](const Problem& problem, const plan::TileSource* source) {
    return ctx.plan_here(problem, source);
  };
  setup.provider = &ctx.provider;
  setup.helper = autotune::find_measure_helper();
  setup.store_folder = autotune::default_store_folder();
  setup.try_limit = seconds_setting("HIPFLASH_MEASURE_TIMEOUT", setup.try_limit);
  return setup;
}

std::vector<Problem> problems_of(const TuneOptions& options, std::vector<Problem> common) {
  if (options.shapes_file.empty()) return common;
  std::vector<Problem> problems;
  for (const WorkloadItem& item : read_workload(options.shapes_file)) {
    if (!item.is_operation()) problems.push_back(item.problem);  // operations have no tiles
  }
  if (problems.empty()) {
    fail(ErrorCode::InvalidArgument, "shapes_file: \"{}\" holds no problem of attention",
         options.shapes_file);
  }
  return problems;
}

autotune::Fingerprint fingerprint_of(Context& ctx) {
  return autotune::fingerprint_of(ctx.impl().device().facts());
}

std::vector<autotune::RaceSample> measured(Context& ctx) {
  const autotune::Store store(autotune::default_store_folder());
  const autotune::Fingerprint device = fingerprint_of(ctx);
  std::vector<autotune::RaceSample> races =
      autotune::parse_samples(store.read_text(autotune::samples_name(device)));
  if (races.empty()) {
    fail(ErrorCode::CacheUnusable, "nothing was measured on {} yet: `hipflash tune` does",
         device.name);
  }
  return races;
}

}  // namespace

TuneSummary tune(Context& ctx, const TuneOptions& options) {
  const autotune::TunerSetup setup = setup_of(ctx.impl());
  return autotune::tune_problems(
      setup, problems_of(options, autotune::common_problems(setup.facts.kind, options.full)),
      options);
}

TuneCheck check_tuning(Context& ctx, const TuneOptions& options) {
  const autotune::TunerSetup setup = setup_of(ctx.impl());
  return autotune::check_problems(
      setup, ctx.impl().tuned(),
      problems_of(options, autotune::held_out_problems(setup.facts.kind)), options);
}

std::string tuning_report(Context& ctx) {
  return autotune::report_html(fingerprint_of(ctx), measured(ctx));
}

std::string tuning_table(Context& ctx) {
  return autotune::report_text(measured(ctx));
}

}  // namespace hipflash
