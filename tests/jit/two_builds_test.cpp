// Two builds of the library over one cache folder and one folder of prebuilt code: what one made
// serves that one alone, and neither disturbs the other.
//
// The other build is this one's shared library with a word of its kernel text changed, which is
// what tells builds apart.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>

#include <vector>

#include "cache/entry_file.h"
#include "support.h"

extern char** environ;

namespace hipflash::jit::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const char* const kThis = HIPFLASH_BINARY_DIR "/lib/libhipflash.so";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TwoBuilds : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kThis)) GTEST_SKIP() << "this build has no shared library";
    std::string library = content_of(kThis);
    const std::string before = "constexpr float kLn2 =", after = "constexpr float kLn2= ";
    const std::size_t at = library.find(before);
    ASSERT_NE(at, std::string::npos) << "kernel_sources/common/logarithms.h has changed";
    ASSERT_EQ(library.find(before, at + 1), std::string::npos);
    library.replace(at, before.size(), after);
    std::ofstream(other_, std::ios::binary) << library;
  }

  pid_t start(const std::string& library) const {
    std::string program = HIPFLASH_BINARY_DIR "/tests/library_program", path = library;
    char* const arguments[] = {program.data(), path.data(), nullptr};
    pid_t child = -1;
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 2, errors_.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    EXPECT_EQ(::posix_spawn(&child, program.c_str(), &files, nullptr, arguments, environ), 0);
    ::posix_spawn_file_actions_destroy(&files);
    return child;
  }
  static int exit_code(pid_t child) {
    int status = -1;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run(const std::string& library) const { return exit_code(start(library)); }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& at : fs::recursive_directory_iterator(folder_ / "cache")) {
      if (at.path().extension() == cache::kEntrySuffix) found.push_back(at.path());
    }
    return found;
  }

  TestFolder folder_;
  const std::string other_ = folder_ / "other build.so", errors_ = folder_ / "errors";
  Env helper_{"HIPFLASH_COMPILE_HELPER", helper_path()};
  Env cxx_{"HIPFLASH_CXX", counting_compiler(folder_, "exec c++ \"$@\"\n")};
  Env cache_{"HIPFLASH_CACHE_DIR", folder_ / "cache"};
  Env tuning_{"HIPFLASH_TUNING", "off"};
  Env prebuilt_{"HIPFLASH_PREBUILT", std::nullopt};
};

TEST_F(TwoBuilds, EachCompilesAndFindsItsOwn) {
  EXPECT_EQ(run(kThis), 0);
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_EQ(run(other_), 0);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(compiles_counted(folder_), 2u);
  for (const auto& library : {std::string(kThis), other_, std::string(kThis), other_}) {
    EXPECT_EQ(run(library), 0);
  }
  EXPECT_EQ(compiles_counted(folder_), 2u) << "an entry was found by neither";
  EXPECT_EQ(content_of(errors_), "");
}

TEST_F(TwoBuilds, AtOnceOverAnEmptyCache) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(start(kThis));
    children.push_back(start(other_));
  }
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(compiles_counted(folder_), 2u);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(content_of(errors_), "");
}

// They push each other's entries out and compile again, and stay right.
TEST_F(TwoBuilds, ACacheWithRoomForOneOfThem) {
  ASSERT_EQ(run(kThis), 0);
  ASSERT_EQ(entries().size(), 1u);
  const auto bytes = fs::file_size(entries().front());
  const Env room("HIPFLASH_CACHE_MAX", std::to_string(bytes + bytes / 2));
  for (int round = 0; round < 2; ++round) {
    for (const std::string& library : {other_, std::string(kThis)}) {
      EXPECT_EQ(run(library), 0);
      EXPECT_EQ(entries().size(), 1u);
    }
  }
  EXPECT_EQ(compiles_counted(folder_), 5u);
  EXPECT_EQ(run(kThis), 0);
  EXPECT_EQ(compiles_counted(folder_), 5u) << "the newest entry went instead of the oldest";
}

TEST_F(TwoBuilds, PrebuiltCodeServesTheBuildThatMadeIt) {
  ASSERT_EQ(run(kThis), 0);
  fs::rename(folder_ / "cache", folder_ / "shipped");
  const Env shipped("HIPFLASH_PREBUILT", folder_ / "shipped");
  EXPECT_EQ(run(kThis), 0);
  EXPECT_EQ(compiles_counted(folder_), 1u);
  {
    const Env never("HIPFLASH_COMPILE", "never");
    EXPECT_EQ(run(kThis), 0);
    EXPECT_EQ(run(other_), 1);
    EXPECT_THAT(content_of(errors_), HasSubstr("no compiled code is in the cache or prebuilt"));
  }
  EXPECT_EQ(run(other_), 0);
  EXPECT_EQ(compiles_counted(folder_), 2u);
}

}  // namespace
}  // namespace hipflash::jit::test
