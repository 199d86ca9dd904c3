#include "autotune/race.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hipflash::autotune {
namespace {

// After two rounds, one that never came within this factor of the best is out.
constexpr double kHopeless = 1.3;

// The largest k for which the k-th smallest and k-th largest of n samples enclose the median with
// 95% confidence: P(fewer than k of n fair coins show heads) <= 2.5%. 0: n is too small.
int order_of_bound(int n) {
  double probability = std::pow(0.5, n), below = 0.0;
  int k = 0;
  while (k < n / 2 && below + probability <= 0.025) {
    below += probability;
    probability *= static_cast<double>(n - k) / (k + 1);
    ++k;
  }
  return k;
}

}  // namespace

Interval median_interval(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto n = samples.size();
  const auto k = static_cast<std::size_t>(std::max(1, order_of_bound(static_cast<int>(n))));
  const double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
  return {median, samples[k - 1], samples[n - k]};
}

Race::Race(std::size_t configs, const RaceOptions& options)
    : options_(options), configs_(configs), random_(options.seed) {}

std::vector<std::size_t> Race::next_round() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < configs_.size(); ++i) {
    configs_[i].pending = 0;
    if (configs_[i].running) order.push_back(i);
  }
  std::shuffle(order.begin(), order.end(), random_);
  return order;
}

void Race::record(std::size_t config, double ms) {
  configs_[config].pending = ms;
}

void Race::remove(std::size_t config) {
  configs_[config].running = false;
}

void Race::finish_round() {
  ++rounds_;
  const double base = configs_[0].pending;
  for (Config& config : configs_) {
    if (!config.running || config.pending <= 0 || base <= 0) continue;
    config.ms.push_back(config.pending);
    config.ratios.push_back(config.pending / base);
  }
  const bool confident = rounds_ >= options_.fewest_rounds;
  double best_high = 1.0;  // the baseline's
  for (std::size_t i = 1; i < configs_.size(); ++i) {
    if (configs_[i].running && rounds(i) >= 2) best_high = std::min(best_high, ratio(i).high);
  }
  for (std::size_t i = 1; i < configs_.size(); ++i) {
    if (!configs_[i].running || rounds_ < 2) continue;
    const double low = ratio(i).low;
    if (confident ? low > best_high : low > kHopeless * best_high) configs_[i].running = false;
  }
}

bool Race::done() const {
  std::vector<std::size_t> left;
  for (std::size_t i = 1; i < configs_.size(); ++i) {
    if (configs_[i].running) left.push_back(i);
  }
  if (left.empty() || rounds_ >= options_.most_rounds) return true;
  if (rounds_ < options_.fewest_rounds) return false;
  const double goal = 1.0 - options_.margin;
  if (left.size() == 1 && ratio(left[0]).high < goal) return true;
  return std::all_of(left.begin(), left.end(), [&](std::size_t i) { return ratio(i).low >= goal; });
}

Interval Race::time_ms(std::size_t config) const {
  return median_interval(configs_[config].ms);
}

Interval Race::ratio(std::size_t config) const {
  return median_interval(configs_[config].ratios);
}

std::size_t Race::winner() const {
  std::size_t best = 0;
  double best_ratio = 1.0;
  for (std::size_t i = 1; i < configs_.size(); ++i) {
    if (!configs_[i].running || rounds(i) < options_.fewest_rounds) continue;
    const Interval own = ratio(i);
    if (own.high < 1.0 - options_.margin && own.median < best_ratio) {
      best = i;
      best_ratio = own.median;
    }
  }
  return best;
}

}  // namespace hipflash::autotune
