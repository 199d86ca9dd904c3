/// \file
/// Tuning: which tile config serves a Problem. The tuner that measures configs is not built yet;
/// `tune` throws NotSupported("tuning"), and plans use the built-in defaults.
#pragma once

#include <string>

#include "hipflash/context.h"

namespace hipflash {

/// What to tune and for how long.
struct TuneOptions {
  bool full = false;          ///< Every bucket instead of the common ones.
  double budget_minutes = 0;  ///< 0: no limit.
  std::string shapes_file;    ///< Problems to tune for; empty: the built-in list.
};

/// Measures tile configs on the context's device and stores the best.
/// \throws Error NotSupported until built.
HIPFLASH_EXPORT void tune(Context& ctx, const TuneOptions& options = {});

}  // namespace hipflash
