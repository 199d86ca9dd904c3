// What runs CUDA kernels on the host: copies that arrive late, launches that begin early, and what
// becomes of a grid that cannot end.
#include "gpu/host_device/cuda_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

namespace {

using namespace hipflash::host;

alignas(16) constexpr char kSixteen[] = "0123456789abcde";

// What running the grid throws.
std::string fault_of(const Grid& grid, const std::function<void()>& thread,
                     const std::function<void()>& before = nullptr) {
  try {
    run_grid(grid, thread, before);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaThreads, EveryThreadOfTheGridRunsOnce) {
  std::array<std::array<std::array<int, 2>, 40>, 3> times = {};
  run_grid(
      {3, 40, 2, 0},
      [&] {
        const Index thread = thread_index();
        times.at(block_index().x).at(thread.x).at(thread.y)++;
        EXPECT_EQ(grid_size().x, 3u);
      },
      nullptr);
  for (const auto& block : times) {
    for (const auto& pair : block) EXPECT_EQ(pair, (std::array<int, 2>{1, 1}));
  }
}

TEST(CudaThreads, ThreadsThatEndedAreNotWaitedFor) {
  int through = 0;
  run_grid(
      {2, 64, 1, 0},
      [&] {
        if (thread_index().x >= 32) return;
        EXPECT_TRUE(barrier_or(thread_index().x == 5));
        EXPECT_FALSE(barrier_or(false));
        through++;
      },
      nullptr);
  EXPECT_EQ(through, 2 * 32);
}

TEST(CudaThreads, CopiesArriveWhenTheyAreWaitedFor) {
  run_grid(
      {1, 32, 1, 32 * 32},
      [] {
        unsigned char* const mine = shared_memory() + 32 * thread_index().x;
        copy_later(mine, kSixteen, 4, 4);
        end_copies();
        copy_later(mine + 16, kSixteen, 8, 16);
        end_copies();
        EXPECT_EQ(mine[0], 0xff);
        wait_copies(1);
        EXPECT_EQ(mine[0], '0');
        wait_copies(0);
        EXPECT_EQ(mine[16 + 7], '7');
        EXPECT_EQ(mine[16 + 8], 0);
      },
      nullptr);
}

TEST(CudaThreadsDeathTest, APlaceIsTouchedBeforeItsCopyArrives) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_grid(
                   {1, 1, 1, 16},
                   [] {
                     copy_later(shared_memory(), kSixteen, 16, 16);
                     shared_memory()[3]++;
                   },
                   nullptr),
               "use-after-poison");
}

TEST(CudaThreads, TheLaunchBeforeRunsWhenItIsWaitedFor) {
  std::string order;
  const auto before = [&] {
    run_grid(
        {1, 32, 1, 0},
        [&] {
          barrier(0, 0);
          if (thread_index().x == 0) order += "before ";
        },
        nullptr);
  };
  run_grid(
      {2, 64, 1, 0},
      [&] {
        if (thread_index().x == 0) order += "begins ";
        barrier(0, 0);
        wait_for_launch_before();
        if (thread_index().x == 0) order += "ends ";
      },
      before);
  EXPECT_EQ(order, "begins before ends begins ends ");
}

// Nothing of a grid that did not end is in the way of the next.
TEST(CudaThreads, AGridThatCannotEnd) {
  const Grid grid = {2, 64, 1, 64 * 16};
  const auto copy = [] { copy_later(shared_memory() + 16 * thread_index().x, kSixteen, 16, 16); };
  EXPECT_EQ(fault_of(grid,
                     [&] {
                       copy();
                       if (thread_index().x == 33) fail("a rule");
                       barrier(0, 0);
                     }),
            "block 0, thread 33: a rule");
  EXPECT_EQ(fault_of(grid,
                     [&] {
                       copy();
                       barrier(1, 65);
                     }),
            "block 0: threads wait for each other in different places");
  EXPECT_EQ(fault_of(grid, copy),
            "block 0, thread 0: a thread ended before its copies into shared memory arrived");
  // The fault of the launch that is waited for is that of the one that waits.
  EXPECT_EQ(fault_of(
                grid,
                [] {
                  barrier(0, 0);
                  wait_for_launch_before();
                },
                [&] { run_grid(grid, copy, nullptr); }),
            "block 0, thread 0: a thread ended before its copies into shared memory arrived");

  int ended = 0;
  EXPECT_EQ(fault_of(grid,
                     [&] {
                       copy();
                       end_copies();
                       wait_copies(0);
                       barrier(0, 0);
                       ended++;
                     }),
            "");
  EXPECT_EQ(ended, 2 * 64);
}

}  // namespace
