#include "platform/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace hipflash::platform {
namespace {

struct Marks {
  explicit Marks(std::size_t count) : seen(count) {}
  std::vector<std::atomic<int>> seen;
  static void mark(void* self, std::int64_t i) {
    static_cast<Marks*>(self)->seen[static_cast<std::size_t>(i)]++;
  }
  void expect_each_once() const {
    for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
  }
};

TEST(ThreadPool, RunsEveryItemOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const std::size_t count : {0u, 1u, 2u, 1000u}) {
      Marks marks(count);
      pool.run(static_cast<std::int64_t>(count), Marks::mark, &marks);
      marks.expect_each_once();
    }
  }
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&pool] {
      for (int i = 0; i < 200; ++i) {
        Marks marks(37);
        pool.run(37, Marks::mark, &marks);
        marks.expect_each_once();
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

// Fails by hanging or crashing.
TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

TEST(AvailableCpus, IsAtLeastOne) {
  EXPECT_GE(available_cpus(), 1);
}

}  // namespace
}  // namespace hipflash::platform
