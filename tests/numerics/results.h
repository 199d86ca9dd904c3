// What cases that ran on a GPU leave for tools/verification.py: a line of JSON each, in the file
// that HIPFLASH_RESULTS names.
#pragma once

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "hipflash/attention.h"
#include "verify/reference.h"

namespace hipflash::testing {

struct Result {
  std::string family;  // "gpu/attention_forward_cdna.hip"
  DType dtype = DType::f32;
  std::int64_t head_dim = 0, value_head_dim = 0;
  std::string features;  // the class that the case counts in
  bool right = false;
  double error = 0.0, lse_error = 0.0;  // the largest
  // Of runs with a tile config of the test's choice: "waves=4 tile_keys=64", and how many configs
  // the family lists for the case. Empty: the library chose.
  std::string config = {};
  std::size_t listed = 0;
  bool in_list = false;  // else it is a built-in default beside the list
  bool spills = false;   // its kernel keeps registers in memory
};

inline void write_result(const DeviceInfo& device, const Result& result) {
  const char* const path = std::getenv("HIPFLASH_RESULTS");
  if (!path || device.id.platform == Platform::cpu) return;
  nlohmann::ordered_json line = {
      {"kind", "ran"},
      {"device", device.name},
      {"arch", device.arch},
      {"family", result.family},
      {"dtype", to_string(result.dtype)},
      {"head_dim", result.head_dim},
      {"value_head_dim", result.value_head_dim},
      {"features", result.features},
      {"right", result.right},
      {"error", result.error},
      {"lse_error", result.lse_error},
  };
  if (!result.config.empty()) {
    line["config"] = result.config;
    line["listed"] = result.listed;
    line["in_list"] = result.in_list;
    line["spills"] = result.spills;
  }
  std::ofstream(path, std::ios::app) << line.dump() + "\n";
}

// The class of features that the verification page counts a problem in.
inline std::string features_of(const Problem& p) {
  const Features& has = p.features;
  const std::string sinks = has.sinks ? " with sinks" : "";
  if (has.paged_kv) return "paged cache" + sinks;
  if (has.kv_cache) return "cache" + sinks;
  if (has.varlen) return "packed sequences" + sinks;
  if (has.sinks) return "sinks";
  if (has.bias || has.mask || has.alibi || p.softcap != 0.0f) return "softcap, ALiBi, bias or mask";
  const bool window = p.window.left >= 0 || p.window.right > 0;
  return window ? "window" : p.causal ? "causal" : "full";
}

inline void write_result(const DeviceInfo& device, const Plan& plan,
                         const verify::Verdict& verdict) {
  const Problem& p = plan.problem();
  write_result(device,
               {plan.explanation().family, p.dtype, p.head_dim, p.value_head_dim, features_of(p),
                verdict.ok(), verdict.out.max_error, verdict.lse.max_error});
}

}  // namespace hipflash::testing
