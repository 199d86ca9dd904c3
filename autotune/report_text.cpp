// The report as a table for terminals.
#include <algorithm>
#include <tuple>

#include "autotune/samples.h"
#include "core/format.h"

namespace hipflash::autotune {
namespace {

std::string name_of(const RaceSample& race) {
  return fmt::format("{} b{} h{} s{}x{}", race.label, race.batch, race.heads, race.queries,
                     race.keys);
}

// Speed is one over time, so the ends of the interval change places.
std::string speed_of(const ConfigSample& config) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", 1 / config.ratio.median, 1 / config.ratio.high,
                     1 / config.ratio.low);
}

struct Line {
  std::string problem, speed, samples, standard, chosen;
};

Line line_of(const RaceSample& race) {
  Line line;
  line.problem = name_of(race);
  if (!race.configs.empty()) line.standard = plan::to_text(race.configs.front().tile);
  const ConfigSample* const chosen = chosen_of(race);
  if (chosen == nullptr) {
    line.chosen = "none could be measured";
    return line;
  }
  const bool is_default = chosen == &race.configs.front();
  line.speed = is_default ? "1" : speed_of(*chosen);
  line.chosen = is_default ? "default" : plan::to_text(chosen->tile);
  line.samples = fmt::format("{}", chosen->rounds);
  return line;
}

}  // namespace

const ConfigSample* chosen_of(const RaceSample& race) {
  for (const ConfigSample& config : race.configs) {
    if (config.state == "chosen") return &config;
  }
  return nullptr;
}

std::string report_text(const std::vector<RaceSample>& races) {
  std::vector<RaceSample> sorted = races;
  std::stable_sort(sorted.begin(), sorted.end(), [](const RaceSample& a, const RaceSample& b) {
    return std::tie(a.label, a.queries, a.keys) < std::tie(b.label, b.queries, b.keys);
  });
  std::vector<Line> lines = {
      {"problem", "speed / default (95%)", "samples", "default config", "chosen config"}};
  for (const RaceSample& race : sorted) lines.push_back(line_of(race));
  std::size_t problem = 0, speed = 0, standard = 0;
  for (const Line& line : lines) {
    problem = std::max(problem, line.problem.size());
    speed = std::max(speed, line.speed.size());
    standard = std::max(standard, line.standard.size());
  }
  std::string text;
  for (const Line& line : lines) {
    text += fmt::format("{:{}}  {:{}}  {:>7}  {:{}}  {}\n", line.problem, problem, line.speed,
                        speed, line.samples, line.standard, standard, line.chosen);
  }
  return text;
}

}  // namespace hipflash::autotune
