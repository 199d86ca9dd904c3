#include "autotune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/fail.h"
#include "core/log.h"
#include "jit/code_facts.h"
#include "jit/source.h"
#include "plan/mask_bounds.h"

namespace hipflash::autotune {
namespace {

using Clock = std::chrono::steady_clock;

// 2 per product over the keys that each query sees by position.
double flops_of(const Problem& problem) {
  const plan::MaskBounds bounds = plan::mask_bounds(problem);
  double pairs = 0;
  for (std::int64_t i = 0; i < problem.seq_q; ++i) {
    const std::int64_t at = i + bounds.diagonal;
    const std::int64_t first =
        bounds.has_left ? std::max<std::int64_t>(at - bounds.left, 0) : std::int64_t{0};
    const std::int64_t last =
        bounds.has_right ? std::min(at + bounds.right, problem.seq_k - 1) : problem.seq_k - 1;
    if (first <= last) pairs += static_cast<double>(last - first + 1);
  }
  return 2.0 * pairs * static_cast<double>(problem.head_dim + problem.value_head_dim) *
         static_cast<double>(problem.batch * problem.heads_q);
}

std::string label_of(const plan::TileKey& key) {
  std::string text = fmt::format("{} d{}", plan::element_name(key.element), key.head_dim);
  if (key.value_head_dim != key.head_dim) text += fmt::format("/{}", key.value_head_dim);
  return text + " " + key.features;
}

// The user's wish, or the end of the time that was given since `start`.
bool must_stop(const TuneOptions& options, Clock::time_point start) {
  if (options.stop && options.stop()) return true;
  const std::chrono::duration<double> spent = Clock::now() - start;
  return options.budget_minutes > 0 && spent.count() > 60 * options.budget_minutes;
}

// Waits for a compile, which may take minutes; false if tuning is to stop before.
bool wait_for(const std::shared_future<jit::CodeObject>& code, const TuneOptions& options,
              Clock::time_point start) {
  constexpr std::chrono::milliseconds kSlice{50};
  while (code.wait_for(kSlice) != std::future_status::ready) {
    if (must_stop(options, start)) return false;
  }
  return true;
}

// Stops what still compiles when nobody will look at it: a compile may take minutes, and whoever
// destroys the provider waits for those under way. Waits for their ends, so that who asks for the
// same code next does not meet them; not for long, since a compiler in this process goes on.
class Compiles {
 public:
  Compiles() = default;
  Compiles(const Compiles&) = delete;
  Compiles& operator=(const Compiles&) = delete;
  ~Compiles() {
    stop_.request_stop();
    const Clock::time_point enough = Clock::now() + std::chrono::seconds(5);
    for (const auto& code : begun_) code.wait_until(enough);
  }

  std::shared_future<jit::CodeObject> begin(jit::CodeProvider& provider, const jit::Spec& spec) {
    std::erase_if(begun_, [](const std::shared_future<jit::CodeObject>& code) {
      return code.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    begun_.push_back(provider.get_async(spec, stop_.get_token()));
    return begun_.back();
  }

 private:
  std::stop_source stop_;
  std::vector<std::shared_future<jit::CodeObject>> begun_;  // and not known to have ended
};

// A problem with the configs that are tried for it.
struct Task {
  Problem problem;
  plan::TileKey key;
  std::string text;
  std::vector<plan::TileNumbers> tiles;                    // the default first
  std::vector<std::shared_future<jit::CodeObject>> codes;  // of the tiles, when compiled ahead
  bool compiling = false;
};

class Tuner {
 public:
  Tuner(const TunerSetup& setup, const TuneOptions& options)
      : setup_(setup),
        options_(options),
        device_(fingerprint_of(setup.facts)),
        store_(setup.store_folder),
        worker_(setup.helper, setup.device, setup.context),
        start_(Clock::now()) {}

  TuneSummary run(const std::vector<Problem>& problems) {
    summary_.problems = problems.size();
    summary_.store = store_.document_path(device_).string();
    // One process decides; the others wait and find everything tuned.
    const cache::FileLock lock = store_.lock_tuner(device_, [&] {
      report("waiting for another process that tunes this device", -1);
      return !must_stop();
    });
    if (!lock.held()) return summary_;
    std::vector<Task> tasks = make_tasks(problems);
    summary_.complete = true;
    const auto measuring_since = Clock::now();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (must_stop()) {
        summary_.complete = false;
        break;
      }
      const std::chrono::duration<double> spent = Clock::now() - measuring_since;
      seconds_left_ =
          i == 0 ? -1
                 : spent.count() / static_cast<double>(i) * static_cast<double>(tasks.size() - i);
      done_ = summary_.already + i;
      compile(tasks[i]);
      if (!on_cpu()) {  // the next ones compile while this one is measured
        for (std::size_t ahead = i + 1; ahead < std::min(i + 3, tasks.size()); ++ahead) {
          compile(tasks[ahead]);
        }
      }
      try {
        if (!measure(tasks[i])) summary_.complete = false;
      } catch (const Error& error) {
        // What is measured next could not be kept either.
        if (error.code() == ErrorCode::CacheUnusable) throw;
        ++summary_.failed;
        log(LogLevel::warn, "tuning {}: {}", label_of(tasks[i].key), error.what());
      } catch (const WorkerDied& death) {
        ++summary_.failed;
        log(LogLevel::warn, "tuning {}: the measuring process {}", label_of(tasks[i].key),
            death.reason);
      }
      tasks[i] = {};
      if (!summary_.complete) break;
    }
    done_ = summary_.problems;
    return summary_;
  }

 private:
  bool on_cpu() const { return setup_.facts.kind == platform::Kind::cpu; }

  bool must_stop() const { return autotune::must_stop(options_, start_); }

  void report(const std::string& now, double left) const {
    if (options_.progress) options_.progress({done_, summary_.problems, now, left});
  }

  std::vector<Task> make_tasks(const std::vector<Problem>& problems) {
    TuningTable table(device_);
    table.add(store_.read(device_), DocumentSource::user);
    const std::size_t most = options_.full ? 40 : on_cpu() ? 11 : 20;
    std::vector<Task> tasks;
    for (Problem problem : problems) {
      if (!make_measurable(problem)) {
        ++summary_.failed;
        continue;
      }
      Task task;
      task.problem = problem;
      task.key = setup_.planner(problem, nullptr).tile.key;
      if (task.key.family.empty()) continue;  // a family without configs
      const bool twice = std::any_of(tasks.begin(), tasks.end(),
                                     [&](const Task& other) { return other.key == task.key; });
      if (twice || (!options_.again && table.has_exact(task.key))) {
        ++summary_.already;
        continue;
      }
      const jit::Family* const family = jit::find_family(task.key.family);
      if (family) task.text = jit::source_hash(family->file);
      task.tiles = search_space(setup_.planner, problem, most);
      if (!options_.again) {
        std::erase_if(task.tiles, [&](const plan::TileNumbers& tile) {
          return !table.quarantine_reason(task.key, tile).empty();
        });
      }
      if (!task.tiles.empty()) tasks.push_back(std::move(task));
    }
    return tasks;
  }

  // Starts compiling all configs through the pool of compile helpers.
  void compile(Task& task) {
    if (!setup_.provider || task.compiling) return;
    task.compiling = true;
    for (const plan::TileNumbers& tile : task.tiles) {
      const OnlyTile only(tile);
      task.codes.push_back(
          compiles_.begin(*setup_.provider, setup_.planner(task.problem, &only).spec));
    }
  }

  void quarantine(const Task& task, const plan::TileNumbers& tile, const std::string& reason) {
    ++summary_.quarantined;
    log(LogLevel::warn, "tuning {}: {} goes into quarantine: {}", label_of(task.key),
        plan::to_text(tile), reason);
    Document news;
    news.device = device_;
    news.quarantine.push_back({task.key.family, task.text, task.key.element, task.key.head_dim,
                               task.key.value_head_dim, tile, reason});
    store_.add(news);
  }

  // The configs worth running: compiled, and not pruned by what their code objects say. None if it
  // was interrupted.
  std::vector<plan::TileNumbers> prune(Task& task, std::vector<ConfigSample>& log_of) {
    if (task.codes.empty()) return task.tiles;
    std::vector<plan::TileNumbers> left;
    std::optional<CodeFacts> standard;
    for (std::size_t i = 0; i < task.tiles.size(); ++i) {
      report(fmt::format("compiling {} ({} of {})", label_of(task.key), i + 1, task.tiles.size()),
             seconds_left_);
      if (!wait_for(task.codes[i], options_, start_)) return {};
      std::string skip;
      try {
        const jit::CodeObject code = task.codes[i].get();
        const CodeFacts facts = jit::read_code_facts(code.bytes, setup_.facts.arch);
        if (!standard) standard = facts;
        skip = reason_to_skip(facts, *standard, setup_.facts.shared_bytes);
      } catch (const Error& error) {
        skip = error.what();
      }
      if (skip.empty() || i == 0) {
        left.push_back(task.tiles[i]);
      } else {
        log_of.push_back({task.tiles[i], {}, {}, 0, skip});
      }
    }
    return left;
  }

  struct Runner {
    plan::TileNumbers tile;
    int id = -1;
    int repeat = 1;
    double limit = 60;
  };

  // False if it was interrupted.
  bool measure(Task& task) {
    RaceSample sample;
    std::vector<ConfigSample> unmeasured;
    const std::vector<plan::TileNumbers> tiles = prune(task, unmeasured);
    if (tiles.empty()) return false;
    report("preparing " + label_of(task.key), seconds_left_);
    worker_.load(task.problem, setup_.load_limit);

    std::vector<Runner> runners;
    bool loaded = true;
    const auto enter = [&](Runner& runner) {
      try {
        if (!loaded) worker_.load(task.problem, setup_.load_limit);
        loaded = true;
        const Trial trial = worker_.try_tile(runner.tile, runner.limit);
        if (!trial.fault.empty()) {
          quarantine(task, runner.tile, trial.fault);
          unmeasured.push_back({runner.tile, {}, {}, 0, trial.fault});
          return false;
        }
        runner.id = trial.id;
        const double enough = on_cpu() ? 4.0 : 2.0;  // milliseconds of a sample
        runner.repeat =
            static_cast<int>(std::clamp(std::ceil(enough / std::max(trial.ms, 1e-3)), 1.0, 200.0));
        return true;
      } catch (const WorkerDied& death) {
        loaded = false;
        quarantine(task, runner.tile, death.reason);
        unmeasured.push_back({runner.tile, {}, {}, 0, death.reason});
      } catch (const Error& error) {
        unmeasured.push_back({runner.tile, {}, {}, 0, error.what()});
      }
      return false;
    };
    for (const plan::TileNumbers& tile : tiles) {
      if (must_stop()) return false;
      report(fmt::format("checking {}: {}", label_of(task.key), plan::to_text(tile)),
             seconds_left_);
      Runner runner{tile, -1, 1, setup_.try_limit};
      if (enter(runner)) runners.push_back(std::move(runner));
    }
    if (runners.empty()) fail(ErrorCode::Internal, "no config works");
    if (!loaded) reenter(task, runners, enter);

    const bool has_standard = runners[0].tile == task.tiles[0];
    RaceOptions race_options;
    race_options.margin = options_.margin;
    race_options.most_rounds = options_.full ? 31 : 15;
    race_options.seed = static_cast<std::uint64_t>(start_.time_since_epoch().count());
    Race race(runners.size(), race_options);
    while (!race.done()) {
      report(fmt::format("timing {}, {} queries, round {}", label_of(task.key), task.problem.seq_q,
                         race.rounds(0) + 1),
             seconds_left_);
      for (const std::size_t i : race.next_round()) {
        if (must_stop()) return false;
        try {
          race.record(i, worker_.time_ms(runners[i].id, runners[i].repeat, runners[i].limit));
        } catch (const WorkerDied& death) {
          quarantine(task, runners[i].tile, death.reason);
          unmeasured.push_back({runners[i].tile, {}, {}, 0, death.reason});
          race.remove(i);
          loaded = false;
          if (i == 0) fail(ErrorCode::Internal, "the config to compare with {}", death.reason);
          reenter(task, runners, enter, &race);
        }
      }
      race.finish_round();
    }

    const std::size_t winner = race.winner();
    Document news;
    news.device = device_;
    Entry entry;
    entry.key = task.key;
    entry.text = task.text;
    entry.is_default = has_standard && winner == 0;
    entry.tile = runners[winner].tile;
    entry.gain = winner == 0 ? 1.0 : 1.0 / race.ratio(winner).median;
    news.entries.push_back(entry);
    store_.add(news);
    ++summary_.tuned;
    if (!entry.is_default) ++summary_.changed;

    sample.key = task.key;
    sample.text = task.text;
    sample.label = label_of(task.key);
    sample.batch = task.problem.batch;
    sample.heads = task.problem.heads_q;
    sample.queries = task.problem.seq_q;
    sample.keys = task.problem.seq_k;
    sample.flops = flops_of(task.problem);
    for (std::size_t i = 0; i < runners.size(); ++i) {
      const char* const state = i == winner       ? "chosen"
                                : race.running(i) ? "not faster by the margin"
                                                  : "dropped: slower";
      sample.configs.push_back(
          {runners[i].tile, race.time_ms(i), race.ratio(i), race.rounds(i), state});
    }
    sample.configs.insert(sample.configs.end(), unmeasured.begin(), unmeasured.end());
    store_.update_file(samples_name(device_), [&](const std::string& before) {
      std::vector<RaceSample> races = parse_samples(before);
      add_sample(races, std::move(sample));
      return samples_json(races);
    });
    return true;
  }

  // After the worker died: the configs that were fine enter its successor.
  template <class Enter>
  void reenter(const Task&, std::vector<Runner>& runners, Enter&& enter, Race* race = nullptr) {
    for (std::size_t i = 0; i < runners.size(); ++i) {
      if (race && !race->running(i)) continue;
      if (!enter(runners[i])) {
        if (!race || i == 0) fail(ErrorCode::Internal, "a config that worked does not any more");
        race->remove(i);
      }
    }
  }

  const TunerSetup& setup_;
  const TuneOptions& options_;
  const Fingerprint device_;
  Store store_;
  Worker worker_;
  Compiles compiles_;
  const Clock::time_point start_;
  TuneSummary summary_;
  std::size_t done_ = 0;
  double seconds_left_ = -1;
};

}  // namespace

TuneSummary tune_problems(const TunerSetup& setup, const std::vector<Problem>& problems,
                          const TuneOptions& options) {
  return Tuner(setup, options).run(problems);
}

TuneCheck check_problems(const TunerSetup& setup, const TuningTable& table,
                         const std::vector<Problem>& problems, const TuneOptions& options) {
  TuneCheck check;
  const auto start = Clock::now();
  const bool cpu = setup.facts.kind == platform::Kind::cpu;
  std::vector<Problem> measurable;
  for (Problem problem : problems) {
    if (make_measurable(problem)) measurable.push_back(problem);
  }
  Compiles compiles;
  if (setup.provider) {  // all compile before anything is timed
    std::vector<std::shared_future<jit::CodeObject>> codes;
    for (const Problem& problem : measurable) {
      codes.push_back(compiles.begin(*setup.provider, setup.planner(problem, nullptr).spec));
      codes.push_back(compiles.begin(*setup.provider, setup.planner(problem, &table).spec));
    }
    for (const auto& code : codes) {
      if (!wait_for(code, options, start)) return check;
    }
  }
  Worker worker(setup.helper, setup.device, setup.context);
  for (std::size_t at = 0; at < measurable.size(); ++at) {
    if (must_stop(options, start)) return check;
    const Problem& problem = measurable[at];
    const plan::TileChoice standard = setup.planner(problem, nullptr).tile;
    const plan::TileChoice tuned = setup.planner(problem, &table).tile;
    TuneCheck::Row row;
    row.problem = problem;
    row.config = plan::to_text(tuned.numbers);
    row.is_default = tuned.is_default;
    if (!row.is_default) {
      if (options.progress) {
        options.progress(
            {at, measurable.size(),
             fmt::format("checking {}, {} queries", label_of(tuned.key), problem.seq_q), -1});
      }
      worker.load(problem, setup.load_limit);
      Trial trials[2];
      int repeat[2];
      for (int i = 0; i < 2; ++i) {
        const plan::TileNumbers& tile = i == 0 ? standard.numbers : tuned.numbers;
        trials[i] = worker.try_tile(tile, setup.try_limit);
        if (!trials[i].fault.empty()) {
          fail(ErrorCode::Internal, "{}: {}", plan::to_text(tile), trials[i].fault);
        }
        repeat[i] = static_cast<int>(
            std::clamp(std::ceil((cpu ? 10.0 : 4.0) / std::max(trials[i].ms, 1e-3)), 1.0, 200.0));
      }
      RaceOptions race_options;
      race_options.fewest_rounds = race_options.most_rounds = 21;
      Race race(2, race_options);
      for (int round = 0; round < 21; ++round) {
        race.next_round();
        const int first = round % 2;
        for (const int i : {first, 1 - first}) {
          race.record(static_cast<std::size_t>(i),
                      worker.time_ms(trials[i].id, repeat[i], setup.try_limit));
        }
        race.finish_round();
        if (!race.running(1)) break;
      }
      const Interval ratio = race.ratio(1);
      row.ratio = ratio.median;
      row.low = ratio.low;
      row.high = ratio.high;
      row.default_ms = race.time_ms(0).median;
    }
    check.rows.push_back(std::move(row));
  }
  check.complete = true;
  return check;
}

}  // namespace hipflash::autotune
