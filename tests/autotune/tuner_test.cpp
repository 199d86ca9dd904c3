// The tuner over a fake measuring process: winners, quarantine, resuming, waiting.
#include "autotune/tuner.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "plan/cpu_plan.h"
#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"
#include "tuning_testing.h"

namespace hipflash::autotune {
namespace {

using ::testing::HasSubstr;

class TunerTest : public testing::Test {
 protected:
  TunerTest() {
    setup_.facts = plan::facts_of_architecture("gfx942");
    setup_.facts.compute_units = 304;
    setup_.device = {Platform::hip, 0};
    setup_.planner = [this](const Problem& problem, const plan::TileSource* source) {
      return plan::plan_gpu(problem, setup_.facts, source);
    };
    setup_.helper = HIPFLASH_BINARY_DIR "/tests/fake_measure_program";
    setup_.store_folder = folder_.path() / "store";
    setup_.try_limit = 2.0;
    set("FAKE_LOG", (folder_.path() / "log").string());
  }
  ~TunerTest() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  static Problem problem(std::int64_t seq) {
    return plan::dense_problem({DType::f16, 2, 16, 16, seq, seq, 128, false});
  }

  Document stored() const { return Store(setup_.store_folder).read(fingerprint_of(setup_.facts)); }
  plan::TileChoice chosen(const Problem& p) const {
    TuningTable table(fingerprint_of(setup_.facts));
    for (const Document& document :
         Store(setup_.store_folder).read_relatives(fingerprint_of(setup_.facts))) {
      table.add(document, DocumentSource::user);
    }
    return plan::plan_gpu(p, setup_.facts, &table).tile;
  }
  static int keys_of(const plan::TileNumbers& tile) {
    for (const auto& [name, value] : tile) {
      if (name == "tile_keys") return value;
    }
    return 0;
  }

  ScratchFolder folder_;
  TunerSetup setup_;
  std::vector<std::string> set_;
};

TEST_F(TunerTest, TheFastestIsStoredAndChosen) {
  set("FAKE_FAST", "32");  // the default has 64
  const Problem p = problem(2048);
  ASSERT_EQ(keys_of(chosen(p).numbers), 64);
  const TuneSummary summary = tune_problems(setup_, {p}, {});
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.tuned, 1u);
  EXPECT_EQ(summary.changed, 1u);
  const plan::TileChoice tile = chosen(p);
  EXPECT_EQ(keys_of(tile.numbers), 32);
  EXPECT_EQ(tile.origin, plan::TileOrigin::exact);
  EXPECT_THAT(tile.why, HasSubstr("100.0% faster"));
  EXPECT_EQ(keys_of(chosen(problem(1024)).numbers), 32);  // a neighbour
  EXPECT_THAT(
      report_html(
          fingerprint_of(setup_.facts),
          parse_samples(
              Store(setup_.store_folder).read_text(samples_name(fingerprint_of(setup_.facts))))),
      HasSubstr("chosen"));
}

TEST_F(TunerTest, TiesGoToTheDefaultAndItIsRemembered) {
  EXPECT_EQ(tune_problems(setup_, {problem(2048)}, {}).changed, 0u);
  EXPECT_TRUE(stored().entries.at(0).is_default);
  EXPECT_TRUE(chosen(problem(2048)).is_default);
}

TEST_F(TunerTest, WhatIsTunedIsSkippedAndAgainMeasuresIt) {
  tune_problems(setup_, {problem(2048)}, {});
  const TuneSummary second = tune_problems(setup_, {problem(2048), problem(8192)}, {});
  EXPECT_EQ(second.already, 1u);
  EXPECT_EQ(second.tuned, 1u);
  TuneOptions again;
  again.again = true;
  EXPECT_EQ(tune_problems(setup_, {problem(2048)}, again).tuned, 1u);
}

TEST_F(TunerTest, WrongCrashingAndHangingConfigsGoIntoQuarantine) {
  set("FAKE_FAST", "32");
  for (const auto& [how, words] : std::vector<std::pair<std::string, std::string>>{
           {"FAKE_WRONG", "wrong: out[0]"},
           {"FAKE_CRASH", "crashes: killed by signal 6"},
           {"FAKE_HANG", "hangs: still running after 2 s"},
           {"FAKE_LATE_CRASH", "crashes: killed by signal 11"}}) {
    std::filesystem::remove_all(setup_.store_folder);
    set(how, "32");
    const Problem p = problem(2048);
    const TuneSummary summary = tune_problems(setup_, {p}, {});
    EXPECT_EQ(summary.tuned, 1u) << how;
    EXPECT_GE(summary.quarantined, 1u) << how;
    const Document document = stored();
    ASSERT_FALSE(document.quarantine.empty()) << how;
    for (const Quarantined& q : document.quarantine) {
      EXPECT_EQ(keys_of(q.tile), 32);
      EXPECT_THAT(q.reason, HasSubstr(words));
    }
    EXPECT_NE(keys_of(chosen(p).numbers), 32) << how;
    // Neither by this nor by another size, nor is it tried again.
    EXPECT_NE(keys_of(chosen(problem(1024)).numbers), 32) << how;
    EXPECT_EQ(tune_problems(setup_, {problem(8192)}, {}).quarantined, 0u) << how;
    ::unsetenv(how.c_str());
  }
}

TEST_F(TunerTest, ADefaultThatIsWrongGivesWay) {
  set("FAKE_WRONG", "64");
  const TuneSummary summary = tune_problems(setup_, {problem(2048)}, {});
  EXPECT_EQ(summary.tuned, 1u);
  EXPECT_FALSE(stored().entries.at(0).is_default);
  EXPECT_NE(keys_of(chosen(problem(2048)).numbers), 64);
}

TEST_F(TunerTest, StoppingKeepsWhatIsDone) {
  TuneOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked > 250; };
  const std::vector<Problem> problems = {problem(512), problem(2048), problem(8192),
                                         problem(32768)};
  const TuneSummary first = tune_problems(setup_, problems, options);
  EXPECT_FALSE(first.complete);
  EXPECT_LT(first.tuned, 4u);
  const TuneSummary second = tune_problems(setup_, problems, {});
  EXPECT_TRUE(second.complete);
  EXPECT_EQ(second.already, first.tuned);
  EXPECT_EQ(second.tuned + second.already, 4u);
}

TEST_F(TunerTest, ACheckSaysWhetherItIsComplete) {
  set("FAKE_FAST", "32");
  tune_problems(setup_, {problem(2048)}, {});
  TuningTable table(fingerprint_of(setup_.facts));
  table.add(stored(), DocumentSource::user);
  const std::vector<Problem> problems = {problem(1024), problem(4096)};
  const TuneCheck whole = check_problems(setup_, table, problems, {});
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(whole.rows.size(), 2u);
  TuneOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked > 1; };
  const TuneCheck part = check_problems(setup_, table, problems, options);
  EXPECT_FALSE(part.complete);
  EXPECT_EQ(part.rows.size(), 1u);
}

// A compile may take minutes: whoever stops the run, or the end of its time, does not wait for one,
// nor does the end of the provider.
TEST_F(TunerTest, StoppingDoesNotWaitForCompiles) {
  setup_.facts = {};
  setup_.facts.kind = platform::Kind::cpu;
  setup_.facts.arch = "cpu-portable";
  setup_.facts.compute_units = 2;
  setup_.device = {};
  setup_.planner = [](const Problem& problem, const plan::TileSource* source) {
    return plan::plan_cpu(problem, CpuIsa::portable, 2, plan::Kernel::specialized, source);
  };
  const std::string compiler = folder_.path() / "c++";
  write_text(compiler,
             "#!/bin/sh\ncase \"$1\" in --version|-dumpmachine) echo 1; exit;; esac\n"
             "while :; do sleep 1; done\n");
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  set("HIPFLASH_CXX", compiler);
  jit::ProviderOptions provider_options;
  provider_options.mode = CompileMode::in_process;
  provider_options.limits.seconds = 600;
  provider_options.threads = 1;
  TuneOptions stopped, out_of_time;
  int asked = 0;
  stopped.stop = [&] { return ++asked > 3; };
  out_of_time.budget_minutes = 0.005;
  for (const TuneOptions& options : {stopped, out_of_time}) {
    const auto start = std::chrono::steady_clock::now();
    std::optional<jit::CodeProvider> provider(std::in_place, provider_options);
    setup_.provider = &*provider;
    const TuneSummary summary = tune_problems(setup_, {problem(256)}, options);
    EXPECT_FALSE(summary.complete);
    EXPECT_EQ(summary.tuned, 0u);
    TuningTable table(fingerprint_of(setup_.facts));
    const TuneCheck check = check_problems(setup_, table, {problem(256)}, options);
    EXPECT_TRUE(check.rows.empty());
    EXPECT_FALSE(check.complete);
    provider.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
  }
}

// Killed at any moment, the next run reads what was stored and goes on.
TEST_F(TunerTest, KilledAtAnyMomentItGoesOn) {
  std::vector<Problem> problems;
  for (int bucket = 0; bucket < 12; ++bucket) problems.push_back(problem(16LL << bucket));
  for (int round = 0; round < 24; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      tune_problems(setup_, problems, {});
      ::_exit(0);
    }
    ::usleep(5000 * static_cast<unsigned>(round + 1));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_NO_THROW(stored()) << round;
  }
  const std::size_t before = stored().entries.size();
  const TuneSummary last = tune_problems(setup_, problems, {});
  EXPECT_TRUE(last.complete);
  EXPECT_EQ(last.already, before);
  EXPECT_EQ(stored().entries.size(), 12u);
}

// A disk that fills up ends the run: nothing more is measured only to be lost.
TEST_F(TunerTest, AStoreThatCannotBeWrittenEndsTheRun) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    try {
      tune_problems(setup_, {problem(512), problem(2048)}, {});
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::CacheUnusable ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tune_problems(setup_, {problem(512), problem(2048)}, {}).tuned, 2u);
}

TEST_F(TunerTest, OneRankMeasuresTheOthersTakeOver) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(::fork());
    if (ranks.back() == 0) {
      const TuneSummary summary = tune_problems(setup_, {problem(512), problem(2048)}, {});
      ::_exit(summary.complete && summary.tuned + summary.already == 2 ? 0 : 1);
    }
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(stored().entries.size(), 2u);
  EXPECT_EQ(text_of(folder_.path() / "log"), "load\nload\n");
}

TEST_F(TunerTest, WhatCannotBeMeasuredIsCounted) {
  Problem packed = problem(512), invariant = problem(512);
  packed.features.varlen = true;
  packed.ragged.packed_q = packed.ragged.packed_k = true;
  invariant.batch_invariant = true;  // tuned tiles would change bits from batch to batch
  const TuneSummary summary = tune_problems(setup_, {packed, invariant}, {});
  EXPECT_EQ(summary.tuned, 1u);
  EXPECT_EQ(summary.failed, 1u);
}

}  // namespace
}  // namespace hipflash::autotune
