// The statistics, with synthetic timers.
#include "autotune/race.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace hipflash::autotune {
namespace {

using Timer = std::function<double(std::size_t config, int round)>;

struct Outcome {
  std::size_t winner;
  int rounds, samples;
};

Outcome run(std::size_t configs, const Timer& timer, RaceOptions options = {}) {
  Race race(configs, options);
  Outcome outcome = {0, 0, 0};
  while (!race.done()) {
    for (const std::size_t config : race.next_round()) {
      race.record(config, timer(config, outcome.rounds));
      ++outcome.samples;
    }
    race.finish_round();
    ++outcome.rounds;
  }
  outcome.winner = race.winner();
  return outcome;
}

TEST(MedianInterval, IsThatOfOrderStatistics) {
  // Tables of the sign test: for 6 samples the extremes, for 15 the 4th, for 21 the 6th.
  for (const auto& [n, k] : std::vector<std::pair<int, int>>{{6, 1}, {9, 2}, {15, 4}, {21, 6}}) {
    std::vector<double> samples;
    for (int i = n; i >= 1; --i) samples.push_back(i);
    const Interval made = median_interval(samples);
    EXPECT_EQ(made.low, k) << n;
    EXPECT_EQ(made.high, n + 1 - k) << n;
    EXPECT_EQ(made.median, (n + 1) / 2.0) << n;
  }
  EXPECT_EQ(median_interval({3, 1}).low, 1);
  EXPECT_EQ(median_interval({}).median, 0);
}

TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> skewed(0, 1);  // median 1
  int held = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> samples(15);
    for (double& sample : samples) sample = skewed(random);
    const Interval made = median_interval(samples);
    held += made.low <= 1 && 1 <= made.high;
  }
  EXPECT_GE(held, 1900);  // 95%; the exact coverage is 96.5%
}

TEST(Race, TheFasterWinsAndLosersStopCostingTime) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.99, 1.01);
  const double truth[] = {10, 9, 20, 11, 9.5};
  const Outcome outcome =
      run(5, [&](std::size_t config, int) { return truth[config] * noise(random); });
  EXPECT_EQ(outcome.winner, 1u);
  EXPECT_LT(outcome.samples, 5 * outcome.rounds);
}

TEST(Race, TiesAndGainsBelowTheMarginGoToTheDefault) {
  EXPECT_EQ(run(3, [](std::size_t, int) { return 5.0; }).winner, 0u);
  EXPECT_EQ(run(2, [](std::size_t config, int) { return config == 1 ? 4.95 : 5.0; }).winner, 0u);
  EXPECT_EQ(run(2, [](std::size_t config, int) { return config == 1 ? 4.85 : 5.0; }).winner, 1u);
}

TEST(Race, NoiseAloneHardlyEverWins) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1.0, 0.05);
  int wrong = 0;
  for (unsigned i = 0; i < 300; ++i) {
    RaceOptions options;
    options.seed = i;
    const Outcome outcome = run(
        4, [&](std::size_t, int) { return 10 * std::max(0.5, noise(random)); }, options);
    wrong += outcome.winner != 0;
  }
  EXPECT_LE(wrong, 12);
}

TEST(Race, AMachineThatSlowsDownForAWhileChangesNothing) {
  const auto weather = [](int round) { return round % 5 < 2 ? 3.0 : 1.0; };
  EXPECT_EQ(run(3, [&](std::size_t config,
                       int round) { return (config == 2 ? 8.0 : 10.0) * weather(round); })
                .winner,
            2u);
}

TEST(Race, RareInterruptionsAreNoReason) {
  // The winner is interrupted now and then, for longer than all its gain: a mean would lose it. The
  // loser has one lucky sample: a minimum would take it.
  EXPECT_EQ(run(3,
                [](std::size_t config, int round) {
                  if (config == 1) return round % 6 == 1 ? 40.0 : 9.0;
                  if (config == 2) return round == 2 ? 5.0 : 10.1;
                  return 10.0;
                })
                .winner,
            1u);
}

TEST(Race, OrdersAreRandomAndComplete) {
  Race race(6, {});
  std::set<std::vector<std::size_t>> orders;
  for (int round = 0; round < 5; ++round) {
    const auto order = race.next_round();
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 6u);
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 3u);
}

TEST(Race, WhatFailedIsOut) {
  Race race(3, {});
  race.remove(1);
  while (!race.done()) {
    for (const std::size_t config : race.next_round()) {
      EXPECT_NE(config, 1u);
      race.record(config, config == 2 ? 5 : 10);
    }
    race.finish_round();
  }
  EXPECT_EQ(race.winner(), 2u);
  EXPECT_EQ(race.rounds(1), 0);
}

}  // namespace
}  // namespace hipflash::autotune
