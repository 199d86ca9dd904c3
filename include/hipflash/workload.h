/// \file
/// Workloads: lists of problems, as files of one JSON object a line. HIPFLASH_RECORD=FILE writes
/// the workload of a run; `hipflash pack create --workload FILE` makes its kernels.
///
/// ```
/// {"arch":"gfx942:sramecc+:xnack-","compute_units":304,"problem":{"dtype":"f16","heads_q":32,
///  "heads_kv":8,"seq_q":4096,"head_dim":128,"causal":true}}
/// ```
/// (in one line). Fields of a problem are those of the struct Problem; what is left out is as in a
/// dense call with defaults.
#pragma once

#include <string>
#include <vector>

#include "hipflash/problem.h"

namespace hipflash {

/// A problem and the device that it was, or will be, solved on.
struct WorkloadItem {
  std::string arch;       ///< As DeviceInfo::arch. Empty: for whichever architecture is asked for.
  int compute_units = 0;  ///< As DeviceInfo::compute_units; 0: unknown.
  Problem problem;

  friend bool operator==(const WorkloadItem& a, const WorkloadItem& b) noexcept {
    return a.arch == b.arch && a.compute_units == b.compute_units && a.problem == b.problem;
  }
};

/// The items of a file, each once, in order. A last line without an end, which a writer that was
/// killed leaves behind, is passed over if it cannot be read.
/// \throws Error InvalidArgument naming the file, the line and the field.
HIPFLASH_EXPORT std::vector<WorkloadItem> read_workload(const std::string& path);

/// One line without its end.
HIPFLASH_EXPORT std::string to_json_line(const WorkloadItem& item);

/// The inverse of to_json_line().
/// \throws Error InvalidArgument naming the field.
HIPFLASH_EXPORT WorkloadItem workload_item_from_json(const std::string& line);

}  // namespace hipflash
