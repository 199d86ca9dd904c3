// What was measured, for reports: kept beside the tuning document, read by nothing else.
#pragma once

#include <string>
#include <vector>

#include "autotune/document.h"
#include "autotune/race.h"

namespace hipflash::autotune {

struct ConfigSample {
  plan::TileNumbers tile;
  Interval ms, ratio;  // ratio to the default
  int rounds = 0;
  std::string state;  // "chosen", "slower", "dropped", or why it was not measured
};

struct RaceSample {
  plan::TileKey key;
  std::string text;
  std::string label;  // for people: "bf16 d128 causal"
  long long batch = 0, heads = 0, queries = 0, keys = 0;
  double flops = 0;                   // of one call
  std::vector<ConfigSample> configs;  // the default first
};

std::vector<RaceSample> parse_samples(const std::string& json);  // empty if it cannot be read
std::string samples_json(const std::vector<RaceSample>& races);
// Replaces the one of the same key and text, or adds it.
void add_sample(std::vector<RaceSample>& races, RaceSample race);

std::string samples_name(const Fingerprint& device);  // of the file in the store's folder

// One HTML page.
std::string report_html(const Fingerprint& device, const std::vector<RaceSample>& races);
// A table, one line for each problem.
std::string report_text(const std::vector<RaceSample>& races);

// Null if none was: every config failed.
const ConfigSample* chosen_of(const RaceSample& race);

}  // namespace hipflash::autotune
