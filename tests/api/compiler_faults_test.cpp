// A hipRTC that crashes, hangs, says nothing or refuses a text, in the real compile helper: an
// error with its words within the time limit, and a caller that lives and goes on.
#include <chrono>

#include "api/on_stub.h"
#include "hipflash/prebuilt.h"

namespace hipflash::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FaultyHiprtc : public OnStub {
 protected:
  void SetUp() override {
    OnStub::SetUp();
    ::setenv("HIPFLASH_COMPILE", "process", 1);
    ::setenv("HIPFLASH_COMPILE_HELPER", HIPFLASH_BINARY_DIR "/libexec/hipflash/hipflash-compile",
             1);
    // The helper finds the stand-in's libraries, where this program has them from.
    ::setenv("LD_LIBRARY_PATH", HIPFLASH_BINARY_DIR "/tests/stub_hip", 1);
    ctx = make_context();
  }
  void TearDown() override {
    for (const char* name : {"HIPFLASH_COMPILE_HELPER", "LD_LIBRARY_PATH", "STUB_HIPRTC",
                             "HIPFLASH_COMPILE_TIMEOUT"}) {
      ::unsetenv(name);
    }
    OnStub::TearDown();
  }

  static Problem problem(bool causal = false) {
    Problem p = stub_problem(200);
    p.causal = causal;
    return p;
  }

  // The error of a plan that needs a compile. Whatever the compiler does, this process lives.
  static Error failure(Context& context, const Problem& p) {
    try {
      (void)context.plan(p);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::Internal, "nothing was thrown");
  }

  // With a compiler that can do nothing; another context, made when it works again, is served.
  void expect_trouble(const char* mode, const std::string& words, const std::string& log) {
    SCOPED_TRACE(mode);
    ::setenv("STUB_HIPRTC", mode, 1);
    const Error error = failure(*ctx, problem());
    EXPECT_THAT(error.code(), AnyOf(ErrorCode::CompileFailed, ErrorCode::NotSupported));
    EXPECT_THAT(error.what() + ("\n" + error.log()), HasSubstr(words));
    EXPECT_THAT(error.what() + ("\n" + error.log()), HasSubstr(log));
    ::unsetenv("STUB_HIPRTC");
    EXPECT_EQ(make_context()->plan(problem()).tier(), Tier::compiled);
  }
};

TEST_F(FaultyHiprtc, Works) {
  EXPECT_EQ(ctx->plan(problem()).tier(), Tier::compiled);
}

// What it knows is listed in the error; the warning before does without.
TEST_F(FaultyHiprtc, ListsItsArchitecturesOnce) {
  std::string sentence;
  ::testing::internal::CaptureStderr();
  try {
    (void)compile_ahead(problem(), "gfx9999");
  } catch (const Error& error) {
    sentence = error.what();
  }
  const std::string words = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(sentence, HasSubstr("which knows gfx"));
  EXPECT_THAT(words, HasSubstr("architecture \"gfx9999\" is not known"));
  EXPECT_THAT(words, Not(HasSubstr("which knows")));
}

TEST_F(FaultyHiprtc, Crashes) {
  expect_trouble("crash", "killed by signal 11", "hiprtc compiler for gfx942");
}

TEST_F(FaultyHiprtc, Hangs) {
  ::setenv("HIPFLASH_COMPILE_TIMEOUT", "1", 1);
  ctx = make_context();
  ::setenv("STUB_HIPRTC", "hang", 1);
  const auto start = std::chrono::steady_clock::now();
  const Error error = failure(*ctx, problem());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_THAT(error.what(), HasSubstr("still running after 1 s"));
}

TEST_F(FaultyHiprtc, FailsWithoutALog) {
  expect_trouble("silent", "hiprtcCompileProgram failed for gfx942", "gave no message");
}

TEST_F(FaultyHiprtc, SucceedsWithoutCode) {
  expect_trouble("empty", "reported success and made no code", "gave no message");
}

// That it compiles other texts tells a fault of a kernel's text from one of the compiler.
TEST_F(FaultyHiprtc, RefusesOneText) {
  ::setenv("STUB_HIPRTC", "refuse window_right = true", 1);
  const Error error = failure(*ctx, problem(true));
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_THAT(error.log(), HasSubstr("the stand-in dislikes window_right = true"));
  EXPECT_EQ(ctx->plan(problem(false)).tier(), Tier::compiled);
  ::unsetenv("STUB_HIPRTC");
  EXPECT_EQ(ctx->plan(problem(true)).tier(), Tier::compiled);
}

}  // namespace
}  // namespace hipflash::testing
