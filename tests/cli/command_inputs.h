// The command in a folder with a cache and inputs for `hipflash run`.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cli/npy.h"
#include "command_testing.h"

namespace hipflash::cli {

// A folder with a space in its name, an empty cache in it, and small random inputs.
class CommandTest : public CommandFolder {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CommandFolder::SetUp());
    write("q.npy", {2, 5, 4, 16}, 1);
    write("k.npy", {2, 7, 2, 16}, 2);
    write("v.npy", {2, 7, 2, 24}, 3);
  }

  std::vector<float> write(const std::string& name, const std::vector<std::int64_t>& shape,
                           unsigned seed) const {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(generator);
    write_npy(folder_ / name, NpyType::f32, shape, std::as_bytes(std::span(values)));
    return values;
  }

  void write_bytes(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // `line` is for the shell, which starts in the test's folder.
  Result run(const std::string& line, const std::string& environment = {}) const {
    return run_in_folder(
        "HIPFLASH_CACHE_DIR=cache HIPFLASH_PREBUILT= HIPFLASH_DEVICE=cpu " + environment, line);
  }

  void expect_failure(const std::string& line, int exit_code, const std::string& words) const {
    const Result result = run(line);
    EXPECT_EQ(result.exit_code, exit_code) << line << "\n" << result.errors;
    EXPECT_NE(result.errors.find(words), std::string::npos) << line << "\n" << result.errors;
    EXPECT_EQ(result.out, "") << line;
  }
};

inline constexpr const char* kInputs = "--q q.npy --k k.npy --v v.npy ";

inline std::string run_line(const std::string& more) {
  return std::string("run ") + kInputs + more;
}

}  // namespace hipflash::cli
