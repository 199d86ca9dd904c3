// One compile per key, tiers, modes, forks, and modules that a device refuses.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "jit/module_cache.h"
#include "support.h"

namespace hipflash::jit::test {
namespace {

using testing::HasSubstr;

class Provider : public testing::Test {
 protected:
  TestFolder folder_;
  Env helper_{"HIPFLASH_COMPILE_HELPER", helper_path()};
  Env cxx_{"HIPFLASH_CXX", counting_compiler(folder_, "exec c++ \"$@\"\n")};
};

TEST_F(Provider, CompilesOnceThenMemoryThenDisk) {
  std::string key;
  {
    CodeProvider provider(small_options(folder_ / "cache"));
    EXPECT_EQ(provider.find(small_spec()), Tier::compiled);
    const CodeObject first = provider.get(small_spec());
    EXPECT_EQ(first.tier, Tier::compiled);
    EXPECT_GT(first.compile_ms, 0.0);
    const CodeObject second = provider.get(small_spec());
    EXPECT_EQ(second.tier, Tier::memory);
    EXPECT_EQ(second.bytes, first.bytes);
    EXPECT_EQ(provider.find(small_spec()), Tier::memory);
    EXPECT_NE(provider.get(small_spec(2)).key, first.key);
    key = first.key;
  }
  CodeProvider provider(small_options(folder_ / "cache"));
  EXPECT_EQ(provider.find(small_spec()), Tier::disk);
  const CodeObject third = provider.get(small_spec());
  EXPECT_EQ(third.tier, Tier::disk);
  EXPECT_EQ(third.key, key);
  EXPECT_EQ(compiles_counted(folder_), 2u);
  EXPECT_EQ(provider.counters().disk_hits, 1u);
}

// Says that it is of this version; before each compile it does `first`.
std::string versioned_compiler(const std::string& path, int version, const std::string& first) {
  return write_script(path, "case \"$1\" in --version) echo version " + std::to_string(version) +
                                "; exit;; -dumpmachine) exec c++ \"$1\";; esac\n" + first +
                                "exec c++ \"$@\"\n");
}

TEST_F(Provider, ACompilerUpgradedInPlaceIsAnotherOne) {
  const std::string path = folder_ / "a c++";
  const Env cxx("HIPFLASH_CXX", versioned_compiler(path, 1, ""));
  CodeProvider provider(small_options(folder_ / "cache"));
  const std::string before = provider.key_inputs(small_spec()).compiler;
  provider.get(small_spec());
  versioned_compiler(path, 2, "");
  const std::string key = provider.get(small_spec(2)).key;
  EXPECT_NE(provider.key_inputs(small_spec()).compiler, before);

  CodeProvider later(small_options(folder_ / "cache"));
  EXPECT_EQ(later.find(small_spec()), Tier::compiled);
  EXPECT_EQ(later.find(small_spec(2)), Tier::disk);
  EXPECT_EQ(later.key(small_spec(2)), key);
}

TEST_F(Provider, CodeOfACompileDuringAnUpgradeIsNotKept) {
  const std::string path = folder_ / "a c++", next = folder_ / "next";
  const Env cxx("HIPFLASH_CXX", versioned_compiler(path, 1, "mv '" + next + "' '" + path + "'\n"));
  versioned_compiler(next, 2, "");
  CodeProvider provider(small_options(folder_ / "cache"));
  EXPECT_EQ(provider.get(small_spec()).tier, Tier::compiled);
  EXPECT_EQ(provider.get(small_spec()).tier, Tier::memory);
  EXPECT_EQ(CodeProvider(small_options(folder_ / "cache")).find(small_spec()), Tier::compiled);
  const Env first("HIPFLASH_CXX", versioned_compiler(path, 1, ""));
  EXPECT_EQ(CodeProvider(small_options(folder_ / "cache")).find(small_spec()), Tier::compiled);
}

TEST_F(Provider, SixteenThreadsOneCompile) {
  CodeProvider provider(small_options(""));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] { right += provider.get(small_spec()).bytes.empty() ? 0 : 1; });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
  EXPECT_EQ(compiles_counted(folder_), 1u);
  EXPECT_EQ(provider.counters().compiles, 1u);
}

TEST_F(Provider, EightProcessesOfSixteenThreadsOneCompile) {
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    children.push_back(in_child([&] {
      CodeProvider provider(small_options(folder_ / "cache"));
      std::vector<std::thread> threads;
      std::atomic<int> right{0};
      for (int t = 0; t < 16; ++t) {
        threads.emplace_back([&] { right += provider.get(small_spec()).bytes.empty() ? 0 : 1; });
      }
      for (auto& thread : threads) thread.join();
      return right == 16;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(ended_well(child));
  EXPECT_EQ(compiles_counted(folder_), 1u);
}

TEST_F(Provider, KilledLockHolderDelaysNobody) {
  const Env slow("HIPFLASH_CXX", counting_compiler(folder_, "exec sleep 600\n"));
  const pid_t holder = in_child([&] {
    CodeProvider(small_options(folder_ / "cache")).get(small_spec());
    return true;
  });
  for (int i = 0; i < 1000 && compiles_counted(folder_) == 0; ++i) ::usleep(10000);
  ASSERT_EQ(compiles_counted(folder_), 1u);
  const auto start = std::chrono::steady_clock::now();
  counting_compiler(folder_, "exec c++ \"$@\"\n");
  std::thread killer([&] {
    ::usleep(300000);
    ::kill(holder, SIGKILL);
  });
  EXPECT_EQ(CodeProvider(small_options(folder_ / "cache")).get(small_spec()).tier, Tier::compiled);
  killer.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  EXPECT_FALSE(ended_well(holder));
}

// The holder lives and goes on compiling: the wait ends at the limit of a compile, and what was
// compiled without the lock is whole. The holder, which loses, has its own bytes.
TEST_F(Provider, LiveLockHolderIsWaitedForWithinABound) {
  const Env slow("HIPFLASH_CXX",
                 counting_compiler(folder_, "while [ ! -e '" + (folder_ / "go") +
                                                "' ]; do sleep 0.05; done; exec c++ \"$@\"\n"));
  const pid_t holder = in_child([&] {
    const CodeObject made = CodeProvider(small_options(folder_ / "cache")).get(small_spec());
    return made.tier == Tier::compiled && !made.bytes.empty();
  });
  for (int i = 0; i < 1000 && compiles_counted(folder_) == 0; ++i) ::usleep(10000);
  ASSERT_EQ(compiles_counted(folder_), 1u);
  // The holder's shell has read its script: another file takes the name.
  std::filesystem::remove(folder_ / "fake c++");
  counting_compiler(folder_, "exec c++ \"$@\"\n");
  ProviderOptions options = small_options(folder_ / "cache");
  options.limits.seconds = 5;
  const auto start = std::chrono::steady_clock::now();
  const CodeObject made = CodeProvider(options).get(small_spec());
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(made.tier, Tier::compiled);
  EXPECT_FALSE(made.bytes.empty());
  EXPECT_GE(took, std::chrono::seconds(5));
  EXPECT_LT(took, std::chrono::seconds(25));
  EXPECT_EQ(::waitpid(holder, nullptr, WNOHANG), 0) << "the holder did not hold";
  EXPECT_EQ(compiles_counted(folder_), 2u);
  std::ofstream(folder_ / "go") << "now";
  EXPECT_TRUE(ended_well(holder));
  const CodeObject later = CodeProvider(small_options(folder_ / "cache")).get(small_spec());
  EXPECT_EQ(later.tier, Tier::disk);
  EXPECT_FALSE(later.bytes.empty());
}

TEST_F(Provider, ForkBeforeAndAfterTheFirstCall) {
  CodeProvider provider(small_options(""));
  EXPECT_TRUE(
      ended_well(in_child([&] { return provider.get(small_spec()).tier == Tier::compiled; })));
  const auto ahead = provider.get_async(small_spec(3));
  EXPECT_TRUE(ended_well(in_child([&] {
    return !provider.get(small_spec(3)).bytes.empty() &&
           provider.get_async(small_spec(4)).get().tier == Tier::compiled;
  })));
  EXPECT_EQ(ahead.get().tier, Tier::compiled);
}

TEST_F(Provider, NeverStrictAndSealed) {
  ProviderOptions never = small_options("");
  never.mode = CompileMode::never;
  const Error error = error_of([&] { CodeProvider(never).get(small_spec()); });
  EXPECT_EQ(error.code(), ErrorCode::NotSupported);
  EXPECT_THAT(error.what(), HasSubstr("f32 number 1"));
  EXPECT_THAT(error.what(), HasSubstr("HIPFLASH_COMPILE=never"));
  EXPECT_FALSE(CodeProvider(never).find(small_spec()));

  ProviderOptions strict = small_options("");
  strict.strict = true;
  CodeProvider provider(strict);
  EXPECT_EQ(error_of([&] { provider.get(small_spec()); }).code(), ErrorCode::NotSupported);
  EXPECT_EQ(provider.get_async(small_spec()).get().tier, Tier::compiled);
  EXPECT_EQ(provider.get(small_spec()).tier, Tier::memory);
  provider.seal();
  EXPECT_EQ(error_of([&] { provider.get_async(small_spec(2)).get(); }).code(),
            ErrorCode::NotSupported);
  EXPECT_EQ(provider.get(small_spec()).tier, Tier::memory);
}

TEST_F(Provider, ACompileErrorIsAnErrorEachTime) {
  ProviderOptions options = small_options(folder_ / "cache");
  options.source = [](const Spec&) { return std::string("no program"); };
  CodeProvider provider(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { provider.get(small_spec()); }).code(), ErrorCode::CompileFailed);
  }
  EXPECT_EQ(provider.counters().failures, 2u);
}

TEST_F(Provider, WithoutACompilerPrebuiltServes) {
  ProviderOptions options = small_options(folder_ / "shipped");
  CodeProvider(options).get(small_spec());
  const Env none("HIPFLASH_CXX", "/no/such/compiler");
  ProviderOptions deployed = small_options("");
  deployed.prebuilt = {folder_ / "shipped"};
  CodeProvider provider(deployed);
  EXPECT_FALSE(provider.compiler_state(CompilerKind::host).available);
  EXPECT_EQ(provider.get(small_spec()).tier, Tier::prebuilt);
  EXPECT_EQ(error_of([&] { provider.get(small_spec(2)); }).code(), ErrorCode::CompileFailed);
}

class FakeDevice : public platform::Device {
 public:
  const platform::DeviceFacts& facts() const noexcept override { return facts_; }
  std::shared_ptr<platform::Module> load(const CodeObject& code) override {
    ++loads;
    if (code.tier != Tier::compiled && refuse_cached) {
      throw Error(ErrorCode::LaunchFailed, "invalid image");
    }
    return std::make_shared<platform::Module>();
  }
  std::unique_ptr<platform::Runner> prepare(std::shared_ptr<platform::Module>,
                                            const platform::Launch&) override {
    return nullptr;
  }
  std::unique_ptr<platform::Operation> prepare_operation(
      std::shared_ptr<platform::Module>, const platform::OperationLaunch&) override {
    return nullptr;
  }
  std::atomic<int> loads{0};
  bool refuse_cached = false;

 private:
  platform::DeviceFacts facts_;
};

TEST_F(Provider, ModulesAreLoadedOnceAndRefusedOnesMadeAnew) {
  CodeProvider provider(small_options(folder_ / "cache"));
  ModuleCache modules(provider);
  FakeDevice device;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) threads.emplace_back([&] { modules.get(device, small_spec()); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device.loads, 1);

  CodeProvider later(small_options(folder_ / "cache"));
  ModuleCache later_modules(later);
  device.refuse_cached = true;
  const LoadedModule loaded = later_modules.get(device, small_spec());
  EXPECT_EQ(loaded.tier, Tier::compiled);
  EXPECT_EQ(later.counters().evictions, 1u);
  EXPECT_EQ(later_modules.get(device, small_spec()).tier, Tier::memory);
  EXPECT_EQ(compiles_counted(folder_), 2u);
}

// What served a device by the name without its feature flags is what goes.
TEST_F(Provider, RefusedCodeOfTheArchitectureWithoutFlagsGoes) {
  const std::string key = CodeProvider(small_options(folder_ / "cache")).get(small_spec()).key;
  Spec flagged = small_spec();
  flagged.arch += ":xnack-";
  CodeProvider provider(small_options(folder_ / "cache"));
  EXPECT_EQ(provider.key(flagged), key);
  ModuleCache modules(provider);
  FakeDevice device;
  device.refuse_cached = true;
  EXPECT_EQ(modules.get(device, flagged).tier, Tier::compiled);
  CodeProvider later(small_options(folder_ / "cache"));
  EXPECT_EQ(later.find(small_spec()), Tier::compiled);
  EXPECT_NE(later.key(flagged), key);
}

// Whoever compiled into the user's cache, it serves where compiling is off.
TEST_F(Provider, NeverAsksNoCompiler) {
  ProviderOptions never = small_options(folder_ / "cache");
  const std::string key = CodeProvider(never).get(small_spec()).key;
  never.mode = CompileMode::never;
  const std::string asked = folder_ / "asked";
  const Env cxx("HIPFLASH_CXX",
                write_script(folder_ / "a c++", "touch '" + asked + "'\nexec c++ \"$@\"\n"));
  CodeProvider provider(never);
  EXPECT_EQ(provider.find(small_spec()), Tier::disk);
  EXPECT_EQ(provider.key(small_spec()), key);
  EXPECT_EQ(provider.get(small_spec()).tier, Tier::disk);
  EXPECT_FALSE(provider.find(small_spec(2)));
  provider.key(small_spec(2));
  provider.key_inputs(small_spec(2));
  const CompilerState state = provider.compiler_state(CompilerKind::host);
  EXPECT_FALSE(state.available);
  EXPECT_THAT(state.trouble, HasSubstr("compiling is off"));
  EXPECT_FALSE(std::filesystem::exists(asked));

  // Others may go on compiling into it.
  CodeProvider(small_options(folder_ / "cache")).get(small_spec(2));
  EXPECT_EQ(provider.get(small_spec(2)).tier, Tier::disk);
}

// What made the code, not what would make it now.
TEST_F(Provider, CodeSaysWhoMadeIt) {
  const std::string path = folder_ / "a c++";
  const Env cxx("HIPFLASH_CXX", versioned_compiler(path, 1, ""));
  ProviderOptions options = small_options(folder_ / "cache");
  const CodeObject made = CodeProvider(options).get(small_spec());
  EXPECT_THAT(made.inputs.compiler, HasSubstr("version 1"));
  EXPECT_EQ(cache::key_of(made.inputs), made.key);
  versioned_compiler(path, 2, "");
  options.mode = CompileMode::never;
  CodeProvider never(options);
  for (const Tier tier : {Tier::disk, Tier::memory}) {
    const CodeObject found = never.get(small_spec());
    EXPECT_EQ(found.tier, tier);
    EXPECT_EQ(found.inputs, made.inputs);
  }
}

}  // namespace
}  // namespace hipflash::jit::test
