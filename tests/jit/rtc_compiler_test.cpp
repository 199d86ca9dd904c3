// Runtime compilers whose library is replaced while the process runs, and what waits for compiles.
#include "jit/rtc_compiler.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <iterator>

#include "jit/compiler_health.h"
#include "support.h"

namespace hipflash::jit::test {
namespace {

// A library that is a text file, which says what it is.
class FakeVendor {
 public:
  static constexpr CompilerKind kKind = CompilerKind::nvrtc;
  static constexpr bool kSerial = false;
  static constexpr const char* kProduct = "fake";
  static inline std::vector<std::string> places;

  static std::string find() {
    for (const std::string& place : places) {
      if (std::filesystem::exists(place)) return place;
    }
    fail(ErrorCode::CompileFailed, "there is none");
  }
  static std::vector<std::string> identity_files(const std::string& path) { return {path}; }
  static Identity identity(const std::string& path) {
    std::ifstream file(path);
    return {{std::istreambuf_iterator<char>(file), {}}, path};
  }
  static std::string base_architecture(const std::string& arch) { return arch; }
  static bool features_known(const std::string&) { return true; }

  explicit FakeVendor(const std::string&) {}
  std::vector<std::string> architectures() const { return {"sm_90"}; }
  std::vector<std::byte> compile(const CompileJob&) const { return {std::byte{1}}; }
};

class ReplacedLibrary : public testing::Test {
 protected:
  void SetUp() override {
    FakeVendor::places = {first_, second_};
    std::ofstream(first_) << "one";
  }
  const TestFolder folder_;
  const std::string first_ = folder_ / "lib.so.1", second_ = folder_ / "lib.so.2";
  RtcCompiler<FakeVendor> compiler_{""};
};

// It is opened anew by each helper process.
TEST_F(ReplacedLibrary, IsAnotherCompilerIfNobodyHasItOpen) {
  EXPECT_EQ(compiler_.identify().identity, "one");
  EXPECT_EQ(compiler_.identify().identity, "one");
  std::ofstream(first_) << "another";
  EXPECT_FALSE(compiler_.known());
  EXPECT_EQ(compiler_.identify().identity, "another");
  EXPECT_EQ(compiler_.known()->identity, "another");
  std::filesystem::rename(first_, second_);
  EXPECT_FALSE(compiler_.known());
  EXPECT_EQ(compiler_.identify().description, second_);
  EXPECT_EQ(compiler_.tool(), second_);
  std::filesystem::remove(second_);
  EXPECT_FALSE(compiler_.known());
  EXPECT_THROW(compiler_.identify(), Error);
}

TEST_F(ReplacedLibrary, IsTheSameCompilerIfThisProcessHasItOpen) {
  EXPECT_EQ(compiler_.identify().identity, "one");
  CompileJob job;
  job.arch = "sm_90";
  EXPECT_EQ(compiler_.compile(job).size(), 1u);
  std::ofstream(first_) << "another";
  EXPECT_EQ(compiler_.known()->identity, "one");
  EXPECT_EQ(compiler_.identify().identity, "one");
}

// Nobody has asked what it is when its path is found.
TEST_F(ReplacedLibrary, IsFoundElsewhereThoughNobodyAsked) {
  EXPECT_FALSE(compiler_.known());
  EXPECT_EQ(compiler_.tool(), first_);
  std::ofstream(second_) << "two";
  std::filesystem::remove(first_);
  EXPECT_EQ(compiler_.tool(), second_);
  EXPECT_FALSE(compiler_.known());
  EXPECT_EQ(compiler_.identify().identity, "two");
}

// What is opened is what has the identity, also if it was asked for before the upgrade.
TEST_F(ReplacedLibrary, BetweenTheQuestionAndTheFirstCompile) {
  EXPECT_EQ(compiler_.identify().identity, "one");
  std::ofstream(first_) << "another";
  CompileJob job;
  job.arch = "sm_90";
  EXPECT_EQ(compiler_.compile(job).size(), 1u);
  std::ofstream(first_) << "a third one";
  EXPECT_EQ(compiler_.identify().identity, "another");
}

// One compile at a time, and each waits until it may end.
class SerialVendor : public FakeVendor {
 public:
  static constexpr bool kSerial = true;
  static inline std::promise<void> begun;
  static inline std::shared_future<void> may_end;
  using FakeVendor::FakeVendor;
  std::vector<std::byte> compile(const CompileJob&) const {
    begun.set_value();
    may_end.wait();
    return {std::byte{1}};
  }
};

TEST_F(ReplacedLibrary, CompilingDelaysNoQuestion) {
  std::promise<void> end;
  SerialVendor::may_end = end.get_future().share();
  RtcCompiler<SerialVendor> compiler("");
  CompileJob job;
  job.arch = "sm_90";
  auto compile = std::async(std::launch::async, [&] { return compiler.compile(job); });
  SerialVendor::begun.get_future().wait();
  auto answer = std::async(std::launch::async, [&] { return compiler.identify(); });
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  end.set_value();
  EXPECT_EQ(answer.get().identity, "one");
  EXPECT_EQ(compile.get().size(), 1u);
}

// Compiles nothing, and takes its time.
class SlowCompiler : public Compiler {
 public:
  CompilerKind kind() const noexcept override { return CompilerKind::nvrtc; }
  Identity identify() override { return {"slow", "slow"}; }
  std::optional<Identity> known() override { return identify(); }
  std::string tool() override { return "slow"; }
  std::vector<std::byte> compile(const CompileJob&) override {
    ++compiles;
    begun.set_value();
    may_end.wait();
    fail(ErrorCode::CompileFailed, "it does not work");
  }
  int compiles = 0;
  std::promise<void> begun;
  std::shared_future<void> may_end;
};

TEST(CompilerHealth, ProbingDelaysNoQuestion) {
  const auto slow = std::make_shared<SlowCompiler>();
  std::promise<void> end;
  slow->may_end = end.get_future().share();
  CompilerHealth health(slow, /*may_compile=*/false);
  CompileJob job;
  job.arch = "sm_90";
  const auto works = [&] { return health.works(job); };
  auto first = std::async(std::launch::async, works);
  slow->begun.get_future().wait();
  auto second = std::async(std::launch::async, works);
  auto answer = std::async(std::launch::async, [&] {
    EXPECT_FALSE(health.trouble("sm_90"));
    return health.identify();
  });
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  end.set_value();
  EXPECT_EQ(answer.get().identity, "slow");
  EXPECT_FALSE(first.get());
  EXPECT_FALSE(second.get());
  EXPECT_EQ(slow->compiles, 1);
  EXPECT_TRUE(health.trouble("sm_90"));
}

}  // namespace
}  // namespace hipflash::jit::test
