/// \file
/// Workloads: lists of problems, as files of one JSON object a line. HIPFLASH_RECORD=FILE writes
/// the workload of a run; `hipflash pack create --workload FILE` makes its kernels.
///
/// ```
/// {"arch":"gfx942:sramecc+:xnack-","compute_units":304,"problem":{"dtype":"f16","heads_q":32,
///  "heads_kv":8,"seq_q":4096,"head_dim":128,"causal":true}}
/// ```
/// (in one line). Fields of a problem are those of the struct Problem; what is left out is as in a
/// dense call with defaults. A line may hold an operation beside attention instead:
///
/// ```
/// {"arch":"gfx942","operation":{"name":"append_kv","dtype":"f16","head_dim":128,"aligned":true}}
/// ```
#pragma once

#include <string>
#include <vector>

#include "hipflash/problem.h"

namespace hipflash {

/// The kernel of an operation beside attention (hipflash/kv_cache.h, hipflash/merge.h): what it is
/// compiled for.
struct OperationKernel {
  std::string name;                 ///< "append_kv" or "merge_partials"; empty: none.
  DType dtype = DType::f32;         ///< Of the cache, or of the joined result.
  DType other_dtype = DType::f32;   ///< Of the rotary tables, or of the partial results.
  std::int64_t head_dim = 0;        ///< Of the keys appended, or of the results joined; 1 to 512.
  std::int64_t value_head_dim = 0;  ///< Appending only: of the values; 0: head_dim.
  std::int64_t rotary_dim = 0;      ///< Appending only; 0: nothing is rotated.
  bool rotary_interleaved = false;  ///< As Rotary::interleaved.
  bool aligned = false;             ///< All rows are whole multiples of 16 bytes.

  friend bool operator==(const OperationKernel& a, const OperationKernel& b) noexcept {
    return a.name == b.name && a.dtype == b.dtype && a.other_dtype == b.other_dtype &&
           a.head_dim == b.head_dim && a.value_head_dim == b.value_head_dim &&
           a.rotary_dim == b.rotary_dim && a.rotary_interleaved == b.rotary_interleaved &&
           a.aligned == b.aligned;
  }
};

/// A problem, or an operation, and the device that it was, or will be, solved on.
struct WorkloadItem {
  std::string arch;       ///< As DeviceInfo::arch. Empty: for whichever architecture is asked for.
  int compute_units = 0;  ///< As DeviceInfo::compute_units; 0: unknown.
  Problem problem;        ///< Of no meaning where there is an operation.
  OperationKernel operation = {};

  bool is_operation() const noexcept { return !operation.name.empty(); }

  friend bool operator==(const WorkloadItem& a, const WorkloadItem& b) noexcept {
    return a.arch == b.arch && a.compute_units == b.compute_units && a.operation == b.operation &&
           (a.is_operation() || a.problem == b.problem);
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
