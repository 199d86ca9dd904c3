// Which of several configs is the fastest, from samples that disturb each other as little as can
// be.
//
// A round times every config that is still in the race once, in random order; each time counts as
// its ratio to the baseline's time of the same round, so that what slows the machine down for a
// while slows both. A config stands for the median of its ratios (neither the mean, which one
// interruption moves, nor the minimum, which luck decides) with the confidence interval of order
// statistics, which assumes nothing of the distribution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace hipflash::autotune {

struct RaceOptions {
  int fewest_rounds = 6;  // below that, an interval of 95% is more than all samples
  int most_rounds = 21;
  double margin = 0.02;  // so much faster than the baseline must a winner be, with confidence
  std::uint64_t seed = 1;
};

// Median and the interval that holds the true one with 95% confidence; fewer than six samples give
// their extremes, with less.
struct Interval {
  double median = 0, low = 0, high = 0;
};
Interval median_interval(std::vector<double> samples);

class Race {
 public:
  // Config 0 is the baseline: the built-in default. It wins ties.
  Race(std::size_t configs, const RaceOptions& options);

  bool done() const;
  // The configs to time now, in this order.
  std::vector<std::size_t> next_round();
  void record(std::size_t config, double ms);
  // Closes the round and drops clear losers.
  void finish_round();
  // Takes a config out: it failed.
  void remove(std::size_t config);

  bool running(std::size_t config) const { return configs_[config].running; }
  int rounds(std::size_t config) const { return static_cast<int>(configs_[config].ms.size()); }
  Interval time_ms(std::size_t config) const;
  Interval ratio(std::size_t config) const;  // to the baseline

  // The config with the least median among those whose whole interval lies below 1 - margin; else
  // the baseline.
  std::size_t winner() const;

 private:
  struct Config {
    std::vector<double> ms, ratios;
    bool running = true;
    double pending = 0;  // of the open round
  };

  const RaceOptions options_;
  std::vector<Config> configs_;
  std::mt19937_64 random_;
  int rounds_ = 0;
};

}  // namespace hipflash::autotune
