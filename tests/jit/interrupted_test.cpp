// What a process that is interrupted in the middle of a compile leaves behind: nothing for long.
#include <gmock/gmock.h>

#include <csignal>
#include <stop_token>
#include <thread>

#include "jit/private_folder.h"
#include "support.h"

namespace hipflash::jit::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

// The process number in a file that a script writes; 0 if none comes.
pid_t pid_in(const std::string& file) {
  pid_t pid = 0;
  for (int i = 0; i < 1000 && pid == 0; ++i) {
    std::ifstream(file) >> pid;
    ::usleep(10000);
  }
  return pid;
}

class Interrupted : public testing::Test {
 protected:
  // A compile that never ends, in a process of its own; its compiler's number goes into `pid`.
  pid_t start_endless_compile(CompileMode mode) {
    write_script(folder_ / "c++",
                 "case \"$1\" in --version|-dumpmachine) exec c++ \"$1\";; esac\n"
                 "echo half > \"$TMPDIR/half\"\necho $$ > '" +
                     (folder_ / "pid") + "'\nexec sleep 600\n");
    return in_child([&] {
      for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
      ProviderOptions options = small_options("");
      options.mode = mode;
      CodeProvider(options).get(small_spec());
      return true;
    });
  }

  TestFolder folder_, temporary_;
  Env helper_{"HIPFLASH_COMPILE_HELPER", helper_path()};
  Env cxx_{"HIPFLASH_CXX", folder_ / "c++"};
  Env tmpdir_{"TMPDIR", temporary_.path()};
};

class InterruptedBy : public Interrupted, public testing::WithParamInterface<int> {};

TEST_P(InterruptedBy, TheHelperTheCompilerAndTheirFilesGoToo) {
  const pid_t child = start_endless_compile(CompileMode::process);
  const pid_t compiler = pid_in(folder_ / "pid");
  ASSERT_GT(compiler, 0);
  ASSERT_FALSE(fs::is_empty(temporary_.path()));
  ::kill(child, GetParam());
  EXPECT_FALSE(ended_well(child));
  EXPECT_TRUE(ends_soon(compiler));
  for (int i = 0; i < 500 && !fs::is_empty(temporary_.path()); ++i) ::usleep(10000);
  EXPECT_THAT(names_in(temporary_.path()), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedBy, testing::Values(SIGINT, SIGTERM, SIGKILL),
                         [](const auto& parameter) {
                           return "signal" + std::to_string(parameter.param);
                         });

// Whoever asked for a compile ahead stops it; who else waits for the same code gets it all the
// same.
TEST_F(Interrupted, ACompileThatIsNotWantedAnyMoreEnds) {
  for (const CompileMode mode : {CompileMode::process, CompileMode::in_process}) {
    for (const char* name : {"begun", "pid"}) fs::remove(folder_ / name);
    write_script(folder_ / "c++",
                 "case \"$1\" in --version|-dumpmachine) exec c++ \"$1\";; esac\n"
                 "test -e '" +
                     (folder_ / "begun") +
                     "' && exec c++ \"$@\"\n"
                     "touch '" +
                     (folder_ / "begun") + "'\necho $$ > '" + (folder_ / "pid") +
                     "'\nexec sleep 600\n");
    ProviderOptions options = small_options("");
    options.mode = mode;
    options.limits.seconds = 600;
    CodeProvider provider(options);
    std::stop_source stop;
    const auto ahead = provider.get_async(small_spec(), stop.get_token());
    const pid_t compiler = pid_in(folder_ / "pid");
    ASSERT_GT(compiler, 0);
    std::thread other([&] { EXPECT_FALSE(provider.get(small_spec()).bytes.empty()); });
    stop.request_stop();
    const Error error = error_of([&] { ahead.get(); });
    EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
    EXPECT_THAT(error.what(), testing::HasSubstr("not wanted any more"));
    other.join();
    EXPECT_TRUE(ends_soon(compiler));
    EXPECT_EQ(provider.counters().compiles, 1u);
    EXPECT_THAT(names_in(temporary_.path()), testing::IsEmpty());
  }
}

TEST_F(Interrupted, WithoutAHelperTheNextProcessRemovesTheFiles) {
  const pid_t child = start_endless_compile(CompileMode::in_process);
  const pid_t compiler = pid_in(folder_ / "pid");
  ASSERT_GT(compiler, 0);
  ::kill(child, SIGKILL);
  EXPECT_FALSE(ended_well(child));
  EXPECT_TRUE(ends_soon(compiler));
  EXPECT_FALSE(fs::is_empty(temporary_.path()));
  EXPECT_TRUE(ended_well(in_child([] { return PrivateFolder().path() != ""; })));
  EXPECT_THAT(names_in(temporary_.path()), testing::IsEmpty());
}

TEST_F(Interrupted, OnlyAbandonedFoldersAreRemoved) {
  const PrivateFolder used;
  const std::string target = folder_ / "target";
  fs::create_directories(target);
  std::ofstream(target + "/.in-use-by-hipflash") << "";
  fs::create_directories(temporary_ / "hipflash-abcdef");  // somebody's, without our lock file
  fs::create_directory_symlink(target, temporary_ / "hipflash-ghijkl");
  ASSERT_FALSE(ended_well(in_child([] {
    const PrivateFolder abandoned;
    std::ofstream(abandoned.path() + "/file") << "text";
    ::raise(SIGKILL);
    return true;
  })));
  EXPECT_EQ(names_in(temporary_.path()).size(), 4u);
  remove_abandoned_folders(temporary_.path());
  EXPECT_THAT(names_in(temporary_.path()),
              testing::UnorderedElementsAre(fs::path(used.path()).filename().string(),
                                            "hipflash-abcdef", "hipflash-ghijkl"));
  EXPECT_TRUE(fs::exists(target + "/.in-use-by-hipflash"));
  remove_abandoned_folders("/no/such/folder");
}

}  // namespace
}  // namespace hipflash::jit::test
