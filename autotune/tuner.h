// The tuner: what to measure, in which order, and what becomes of it.
#pragma once

#include <string>
#include <vector>

#include "autotune/samples.h"
#include "autotune/search_space.h"
#include "autotune/store.h"
#include "autotune/worker.h"
#include "hipflash/tuning.h"
#include "jit/code_provider.h"

namespace hipflash::autotune {

// What the tuner works with. Tests put a fake helper here.
struct TunerSetup {
  platform::DeviceFacts facts;
  DeviceId device;
  ContextOptions context;  // for the worker: the same threads, instruction set and cache
  Planner planner;
  jit::CodeProvider* provider = nullptr;  // null: nothing is compiled ahead
  std::string helper;
  std::filesystem::path store_folder;
  double try_limit = 60.0;    // seconds for the first run of a config, its compile included
  double load_limit = 300.0;  // for tensors and reference
};

TuneSummary tune_problems(const TunerSetup& setup, const std::vector<Problem>& problems,
                          const TuneOptions& options);

TuneCheck check_problems(const TunerSetup& setup, const TuningTable& table,
                         const std::vector<Problem>& problems, const TuneOptions& options);

}  // namespace hipflash::autotune
