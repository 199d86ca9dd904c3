// Context::prefetch(), its progress, and seal().
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "api/on_stub.h"

namespace hipflash::testing {
namespace {

using ::testing::HasSubstr;

struct Step {
  std::size_t done, total;
  std::string error;  // empty: none
};

class Prefetch : public OnStub {
 protected:
  void TearDown() override {
    ::unsetenv("STUB_HIPRTC");
    OnStub::TearDown();
  }
  Context::Progress progress() {
    return [this](std::size_t done, std::size_t total, const Error* error) {
      // One call at a time: the lock must be free.
      const std::unique_lock lock(mutex_, std::try_to_lock);
      EXPECT_TRUE(lock.owns_lock());
      EXPECT_NE(std::this_thread::get_id(), caller_);
      steps_.push_back({done, total, error ? error->what() : ""});
    };
  }

  std::mutex mutex_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::vector<Step> steps_;
};

TEST_F(Prefetch, TellsItsProgressAndLeavesNothingToCompile) {
  std::vector<Problem> problems;
  for (const std::int64_t dim : {32, 64, 96, 128}) problems.push_back(stub_problem(200, dim));
  problems.push_back(stub_problem(0));  // empty: nothing to compile
  ctx->prefetch(problems, progress());
  ctx->wait_prefetch();
  ASSERT_EQ(steps_.size(), 5u);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    EXPECT_EQ(steps_[i].done, i + 1);
    EXPECT_EQ(steps_[i].total, 5u);
    EXPECT_EQ(steps_[i].error, "");
  }
  EXPECT_EQ(ctx->cache_stats().compiles, 4u);

  ctx->seal();
  const StubMemory memory(1 << 18), out(1 << 18);
  for (const Problem& p : problems) {
    const Plan plan = ctx->plan(p);
    TensorPointers t;
    t.q = t.k = t.v = memory.data();
    t.out = out.data();
    plan.run(t);
  }
  EXPECT_EQ(ctx->cache_stats().compiles, 4u);
  try {
    (void)ctx->plan(stub_problem(200, 256));
    ADD_FAILURE() << "a sealed context compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotSupported);
    EXPECT_THAT(error.what(), HasSubstr("d256"));
  }
  EXPECT_EQ(ctx->cache_stats().compiles, 4u);
}

TEST_F(Prefetch, TellsWhichProblemFailedAndGoesOn) {
  ::setenv("STUB_HIPRTC", "refuse int head_dim = 96;", 1);
  ctx->prefetch({stub_problem(200, 64), stub_problem(200, 96), stub_problem(200, 128)}, progress());
  ctx->wait_prefetch();
  ASSERT_EQ(steps_.size(), 3u);
  EXPECT_EQ(steps_[0].error, "");
  EXPECT_THAT(steps_[1].error, HasSubstr("hiprtcCompileProgram failed"));
  EXPECT_EQ(steps_[2].error, "");
}

TEST_F(Prefetch, GoesOnAfterAProblemWithoutAPlan) {
  Problem large = stub_problem(1);  // more blocks than a grid may have
  large.batch = 1 << 20;
  large.heads_q = large.heads_kv = 1 << 13;
  large.set_dense_bshd();
  EXPECT_THROW(ctx->plan(large), Error);
  ctx->prefetch({large, stub_problem(200, 64)}, progress());
  ctx->wait_prefetch();
  ASSERT_EQ(steps_.size(), 2u);
  EXPECT_THAT(steps_[0].error, HasSubstr("blocks"));
  EXPECT_EQ(steps_[1].error, "");
}

TEST_F(Prefetch, OutlivesAThrowingCallback) {
  ctx->prefetch({stub_problem(200, 64), stub_problem(200, 128)},
                [](std::size_t, std::size_t, const Error*) { throw std::runtime_error("no"); });
  ctx->prefetch({stub_problem(200, 96)}, [](std::size_t, std::size_t, const Error*) { throw 42; });
  ctx->wait_prefetch();
  EXPECT_EQ(ctx->cache_stats().compiles, 3u);
}

// All who wait wait for all that was asked for, also by a callback, which itself cannot wait.
TEST_F(Prefetch, EverybodyWaitsForEverything) {
  std::string refused;
  ctx->prefetch({stub_problem(200, 64)}, [&](std::size_t, std::size_t, const Error*) {
    refused = refusal([&] { ctx->wait_prefetch(); });
    ctx->prefetch({stub_problem(200, 96), stub_problem(200, 128)}, progress());
  });
  std::thread other([&] { ctx->wait_prefetch(); });
  ctx->wait_prefetch();
  EXPECT_EQ(steps_.size(), 2u);
  other.join();
  EXPECT_THAT(refused, HasSubstr("callback"));
}

TEST_F(Prefetch, TheEndOfAContextWaitsForWhatACallbackAsked) {
  Context* const ending = ctx.get();
  ending->prefetch({stub_problem(200, 64)}, [&](std::size_t, std::size_t, const Error*) {
    ending->prefetch({stub_problem(200, 96)}, progress());
  });
  ctx.reset();
  EXPECT_EQ(steps_.size(), 1u);
}

TEST_F(Prefetch, ACallbackMayBeTheLastOwnerOfTheContext) {
  std::shared_ptr<Context> owned = make_context();
  const std::weak_ptr<Context> seen = owned;
  std::promise<void> called;
  owned->prefetch({stub_problem(200)}, [owned, &called](auto...) mutable { called.set_value(); });
  owned.reset();
  called.get_future().wait();
  while (!seen.expired()) std::this_thread::yield();
}

TEST_F(Prefetch, OfASealedContextSaysWhatWouldHelp) {
  ctx->seal();
  ctx->prefetch({stub_problem(200, 64)}, progress());
  ctx->wait_prefetch();
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_THAT(steps_[0].error, HasSubstr("hipflash pack create"));
}

TEST_F(Prefetch, RefusesAWrongProblemAtOnce) {
  Problem wrong = stub_problem(200);
  wrong.head_dim = 513;
  EXPECT_THAT(refusal([&] { ctx->prefetch({wrong}, progress()); }), HasSubstr("513"));
  ctx->wait_prefetch();
  EXPECT_TRUE(steps_.empty());
}

TEST_F(Prefetch, TwoAtOnceAndWithoutProgress) {
  ctx->prefetch({stub_problem(200, 64), stub_problem(200, 32)});
  ctx->prefetch({stub_problem(200, 64), stub_problem(300, 64)});
  ctx->wait_prefetch();
  EXPECT_EQ(ctx->cache_stats().compiles, 2u);  // of one kernel for both sequence lengths
  ctx->prefetch({stub_problem(200, 128)});
  ctx.reset();  // waits
}

}  // namespace
}  // namespace hipflash::testing
