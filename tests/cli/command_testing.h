// The `hipflash` command as a shell runs it, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace hipflash::cli {

struct Result {
  int exit_code;
  std::string out, errors;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder with a space in its name.
class CommandFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "hipflash cli XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What runs the command in the folder; `environment` and `line` are for the shell.
  std::string shell_line(const std::string& environment, const std::string& line) const {
    return "cd '" + folder_.string() + "' && " + environment +
           " '" HIPFLASH_BINARY_DIR "/bin/hipflash' " + line;
  }
  Result run_in_folder(const std::string& environment, const std::string& line) const {
    const std::string command = shell_line(environment, line) + " >stdout.txt 2>stderr.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, text_of(folder_ / "stdout.txt"),
            text_of(folder_ / "stderr.txt")};
  }

  std::filesystem::path folder_;
};

}  // namespace hipflash::cli
