// What runs CUDA kernels on the host: copies that arrive late, launches that begin early, and what
// becomes of a grid that cannot end.
#include "gpu/host_device/cuda_threads.h"

#include "gpu/host_device/async_engines.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

extern "C" int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, const void* base,
                                      const std::uint64_t* sizes, const std::uint64_t* strides,
                                      const std::uint32_t* box, const std::uint32_t* steps,
                                      int interleave, int swizzle, int promotion, int fill);

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

// ---- Hopper's engines

// A barrier at the end of the block's memory, which has room for a box before it.
unsigned char* mbarrier() {
  return shared_memory() + 2048;
}

TEST(CudaEngines, APhaseEndsWithItsLastArrival) {
  std::string order;
  run_grid(
      {2, 64, 1, 2056},  // forwards and backwards
      [&] {
        const unsigned thread = thread_index().x;
        if (thread == 0) create_mbarrier(mbarrier(), 2);
        barrier(0, 0);
        if (thread == 7 || thread == 40) {
          wait_mbarrier(mbarrier(), 1);  // the phase before the first
          order += "arrives ";
          arrive_at_mbarrier(mbarrier(), 0);
        }
        wait_mbarrier(mbarrier(), 0);
        if (thread == 63) order += "ended ";
      },
      nullptr);
  EXPECT_EQ(order, "arrives arrives ended arrives arrives ended ");
  EXPECT_EQ(fault_of({1, 1, 1, 2056},
                     [] {
                       create_mbarrier(mbarrier(), 1);
                       wait_mbarrier(mbarrier(), 0);
                     }),
            "block 0: threads wait for each other in different places");
}

// A tensor of five rows of 40 columns, whose elements are their own places.
struct Tensor {
  std::array<std::uint16_t, 5 * 40> elements;
  alignas(64) std::array<unsigned char, 128> map;

  Tensor() {
    for (std::uint16_t i = 0; i < elements.size(); i++) elements.at(i) = i;
    const std::uint64_t sizes[4] = {40, 5, 1, 1}, strides[3] = {80, 16, 16};
    const std::uint32_t box[4] = {64, 8, 1, 1}, steps[4] = {1, 1, 1, 1};
    EXPECT_EQ(cuTensorMapEncodeTiled(map.data(), 6, 4, elements.data(), sizes, strides, box, steps,
                                     0, 3, 3, 0),
              0);
  }
};

TEST(CudaEngines, BoxesArriveSwizzledAndZerosOutside) {
  const Tensor tensor;
  run_grid(
      {1, 1, 1, 2056},
      [&] {
        create_mbarrier(mbarrier(), 1);
        arrive_at_mbarrier(mbarrier(), 1024);
        copy_box(shared_memory(), 4096, tensor.map.data(), {8, 2, 0, 0}, mbarrier());
        wait_mbarrier(mbarrier(), 0);
        for (unsigned row = 0; row < 8; row++) {
          for (unsigned column = 0; column < 64; column++) {
            std::uint16_t x = 0;
            const unsigned chunk = column / 8 ^ row;
            std::memcpy(&x, shared_memory() + 128 * row + 16 * chunk + 2 * (column % 8), 2);
            const bool inside = 8 + column < 40 && 2 + row < 5;
            EXPECT_EQ(x, inside ? 40 * (2 + row) + 8 + column : 0) << row << " " << column;
          }
        }
      },
      nullptr);
}

TEST(CudaEngines, TensorsThatAMapCannotDescribe) {
  const std::uint64_t sizes[4] = {40, 5, 1, 1}, strides[3] = {80, 16, 16}, odd[3] = {88, 16, 16};
  const std::uint32_t box[4] = {64, 8, 1, 1}, high[4] = {64, 257, 1, 1}, steps[4] = {1, 1, 1, 1};
  alignas(64) std::array<unsigned char, 128> map;
  alignas(16) std::array<unsigned char, 16> data;
  const auto encode = [&](const void* base, const std::uint64_t* stride, const std::uint32_t* of) {
    return cuTensorMapEncodeTiled(map.data(), 6, 4, base, sizes, stride, of, steps, 0, 3, 3, 0);
  };
  EXPECT_EQ(encode(data.data(), strides, box), 0);
  EXPECT_NE(encode(data.data() + 2, strides, box), 0);
  EXPECT_NE(encode(data.data(), odd, box), 0);
  EXPECT_NE(encode(data.data(), strides, high), 0);
}

TEST(CudaEnginesDeathTest, ABoxIsReadBeforeItArrives) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor tensor;
  EXPECT_DEATH(run_grid(
                   {1, 1, 1, 2056},
                   [&] {
                     create_mbarrier(mbarrier(), 1);
                     copy_box(shared_memory(), 4096, tensor.map.data(), {0, 0, 0, 0}, mbarrier());
                     shared_memory()[300]++;
                   },
                   nullptr),
               "use-after-poison");
}

TEST(CudaEngines, ProductsAreMadeWhenTheyAreWaitedFor) {
  run_grid(
      {1, 1, 1, 0},
      [] {
        int made = 0;
        const auto later = [&](int weight) {
          struct Data {
            int* made;
            int weight;
          } const data = {&made, weight};
          do_later(
              [](const void* from) {
                const Data& x = *static_cast<const Data*>(from);
                *x.made += x.weight;
              },
              &data, sizeof(data));
          end_group();
        };
        later(1);
        later(10);
        EXPECT_EQ(made, 0);
        finish_groups(1);
        EXPECT_EQ(made, 1);
        finish_groups(0);
        EXPECT_EQ(made, 11);
      },
      nullptr);
  EXPECT_EQ(fault_of({1, 1, 1, 0}, [] { end_group(); }),
            "block 0, thread 0: a thread ended before its products were made");
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
