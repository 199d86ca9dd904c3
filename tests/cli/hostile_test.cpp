// Settings, paths and files that cannot be right: a sentence that names them, and nothing lost.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "cli/npy.h"
#include "command_testing.h"

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;

class Hostile : public CommandFolder {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CommandFolder::SetUp());
    std::vector<float> values(4 * 2 * 8);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<float>(i));
    }
    write_npy(folder_ / "x.npy", NpyType::f32, {1, 4, 2, 8}, std::as_bytes(std::span(values)));
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  Result run(const std::string& line, const std::string& environment = {}) const {
    return run_in_folder(
        "HIPFLASH_CACHE_DIR=cache HIPFLASH_TUNING=tuning HIPFLASH_PREBUILT= HIPFLASH_DEVICE=cpu " +
            environment,
        line);
  }

  void expect_failure(const std::string& line, int exit_code, const std::string& words,
                      const std::string& environment = {}) const {
    const Result result = run(line, environment);
    EXPECT_EQ(result.exit_code, exit_code) << environment << " " << line << "\n" << result.errors;
    EXPECT_NE(result.errors.find(words), std::string::npos) << environment << " " << line << "\n"
                                                            << result.errors;
    EXPECT_EQ(result.out, "") << line;
  }
};

constexpr const char* kRun = "run --q x.npy --k x.npy --v x.npy";

TEST_F(Hostile, MalformedSettingsAreNamed) {
  for (const char* name :
       {"HIPFLASH_DEVICE", "HIPFLASH_CACHE_MAX", "HIPFLASH_TRUSTED_KEYS", "HIPFLASH_COMPILE",
        "HIPFLASH_COMPILE_TIMEOUT", "HIPFLASH_COMPILE_MEMORY", "HIPFLASH_CPU_ISA",
        "HIPFLASH_VERIFY", "HIPFLASH_STRICT"}) {
    for (const char* value : {"nonsense", "-1", "9999999999999999999999999"}) {
      expect_failure(kRun, 2, name, std::string(name) + "=" + value);
    }
  }
}

TEST_F(Hostile, SettingsThatNameWhatIsNotThereWarnAndTheWorkIsDone) {
  for (const char* setting : {"HIPFLASH_CACHE_DIR=/dev/null", "HIPFLASH_PREBUILT=/no/such/pack",
                              "HIPFLASH_RECORD=/dev/null/run.jsonl", "HIPFLASH_LOG=nonsense",
                              "HIPFLASH_LOG_FILE=/dev/null/log"}) {
    const Result result = run(kRun, setting);
    EXPECT_EQ(result.exit_code, 0) << setting << "\n" << result.errors;
    EXPECT_NE(result.errors.find("warning"), std::string::npos) << setting;
  }
}

// Stored kernels serve, but somebody who named a compiler hears that it is not there.
TEST_F(Hostile, ACompilerThatWasNamedAndIsNotThereIsTold) {
  if (!fs::exists(HIPFLASH_BINARY_DIR "/lib/hipflash/prebuilt")) {
    GTEST_SKIP() << "built without HIPFLASH_GENERAL_KERNELS";
  }
  for (const char* value : {"/no/such/compiler", "'g++ -O0'", "/dev/null"}) {
    const Result result = run(kRun, std::string("HIPFLASH_CXX=") + value);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("HIPFLASH_CXX"), std::string::npos) << result.errors;
  }
}

// Opening a pipe must not wait for a writer, and one that is there must not be replaced by a file.
TEST_F(Hostile, PipesAndDevicesAreNoFiles) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_failure("run --q pipe --k x.npy --v x.npy", 1, "not a regular file");
  expect_failure("pack list pipe", 1, "not a regular file");
  expect_failure("pack create -o pipe --dtype f32 --head-dim 8", 1, "not a regular file");
  expect_failure("inspect pipe", 1, "pipe");
  expect_failure("run --q x.npy --k x.npy --v x.npy", 2, "pipe", "HIPFLASH_TRUSTED_KEYS=pipe");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  expect_failure("tune --shapes /dev/zero", 2, "a line of more than");
}

TEST_F(Hostile, WhatCannotBeWrittenIsSaidBeforeTheWork) {
  for (const char* path : {"no/such/folder/file", "."}) {
    expect_failure(std::string("tune --quick --report ") + path, 1, "cannot write");
    expect_failure(std::string("bench --json ") + path, 1, "cannot write");
    expect_failure(std::string("run --q x.npy --k x.npy --v x.npy -o ") + path, 1, "cannot write");
    expect_failure(std::string("pack create -o ") + path, 1, "cannot be written");
  }
  EXPECT_FALSE(fs::exists(folder_ / "tuning"));  // nothing was begun
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(Hostile, TuneThatMeasuredNothingFails) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends a process that asks for too much memory";
#endif
  write("shapes.jsonl",
        R"({"problem":{"dtype":"f32","heads_q":1000000,"seq_q":1000000,"head_dim":128}})"
        "\n");
  const Result result = run("tune --shapes shapes.jsonl");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("not enough memory"), std::string::npos) << result.errors;
}

TEST_F(Hostile, PacksOfNothing) {
  ASSERT_EQ(run(kRun).exit_code, 0);  // fills the cache
  expect_failure("pack create -o a.hfpack --from-cache --arch cpu-abacus", 2, "cpu-abacus");
  expect_failure("pack create -o a.hfpack --from-cache --arch gfx90a", 2, "a pack of nothing");
  write("empty.jsonl", "\n");
  expect_failure("pack create -o a.hfpack --workload empty.jsonl", 2, "a pack of nothing");
  EXPECT_FALSE(fs::exists(folder_ / "a.hfpack"));
}

TEST_F(Hostile, NoHome) {
  for (const char* home : {"-u HOME", "HOME=", "HOME=/dev/null", "HOME=relative"}) {
    const Result result = run_in_folder(
        std::string("env -u HIPFLASH_CACHE_DIR -u HIPFLASH_TUNING -u XDG_CACHE_HOME ") + home +
            " HIPFLASH_DEVICE=cpu HIPFLASH_COMPILE=auto",
        "info");
    EXPECT_EQ(result.exit_code, 0) << home << "\n" << result.errors;
    EXPECT_FALSE(fs::exists(folder_ / "relative"));
  }
}

}  // namespace
}  // namespace hipflash::cli
