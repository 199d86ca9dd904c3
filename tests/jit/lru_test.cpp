#include "jit/lru.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "jit/module_cache.h"
#include "support.h"

namespace hipflash::jit {
namespace {

using Ints = Lru<int, int>;

TEST(Lru, CountCapDropsTheLeastRecentlyUsed) {
  std::vector<int> evicted;
  Ints lru({2, SIZE_MAX}, [&](int key, const Ints::Pointer&) { evicted.push_back(key); });
  lru.put(1, std::make_shared<int>(1), 0);
  lru.put(2, std::make_shared<int>(2), 0);
  EXPECT_TRUE(lru.find(1));
  lru.put(3, std::make_shared<int>(3), 0);
  EXPECT_EQ(evicted, std::vector<int>{2});
  EXPECT_TRUE(lru.find(1));
  EXPECT_FALSE(lru.find(2));
}

TEST(Lru, ByteCapKeepsTheNewestEvenIfTooLarge) {
  Ints lru({SIZE_MAX, 100});
  lru.put(1, std::make_shared<int>(1), 60);
  lru.put(2, std::make_shared<int>(2), 40);
  EXPECT_EQ(lru.bytes(), 100u);
  lru.put(3, std::make_shared<int>(3), 1000);
  EXPECT_EQ(lru.count(), 1u);
  EXPECT_TRUE(lru.find(3));
  lru.put(3, std::make_shared<int>(4), 10);
  EXPECT_EQ(lru.bytes(), 10u);
  EXPECT_EQ(*lru.find(3), 4);
}

TEST(Lru, ValuesInUseOutliveEviction) {
  Ints lru({1, SIZE_MAX});
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  lru.put(1, held, 0);
  lru.put(2, std::make_shared<int>(2), 0);
  EXPECT_FALSE(lru.find(1));
  EXPECT_FALSE(watch.expired());
  held.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Lru, SixteenThreadsLoadOnce) {
  Ints lru({SIZE_MAX, SIZE_MAX});
  std::atomic<int> loads{0}, loaders{0}, right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      bool loaded = false;
      const auto value = lru.get(
          7,
          [&]() -> Ints::Sized {
            ++loads;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            return {std::make_shared<int>(7), 1};
          },
          &loaded);
      loaders += loaded ? 1 : 0;
      right += *value == 7 ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(loaders, 1);
  EXPECT_EQ(right, 16);
}

TEST(Lru, FailedLoadsAreTriedAgain) {
  Ints lru({SIZE_MAX, SIZE_MAX});
  EXPECT_THROW(lru.get(1, []() -> Ints::Sized { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(*lru.get(1, []() -> Ints::Sized { return {std::make_shared<int>(5), 1}; }), 5);
}

TEST(Lru, ThreadsUnderACap) {
  Ints lru({8, SIZE_MAX});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        const int key = (i * 7 + t) % 40;
        const auto value = lru.get(key, [&]() -> Ints::Sized {
          return {std::make_shared<int>(key), 1};
        });
        if (*value != key) ++wrong;
        if (i % 50 == 0) lru.erase(key);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(lru.count(), 8u);
  EXPECT_EQ(lru.bytes(), lru.count());
}

// A module that holds a file descriptor and some memory, as loaded code does.
class FakeModule : public platform::Module {
 public:
  FakeModule() : file_("/dev/null"), memory_(1000) { ++alive; }
  ~FakeModule() override { --alive; }
  static inline std::atomic<int> alive{0};

 private:
  std::ifstream file_;
  std::vector<char> memory_;
};

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t resident_kilobytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4;
}

TEST(Lru, SixtyFiveThousandLoadsLeakNothing) {
  Lru<int, platform::Module> lru({16, SIZE_MAX});
  const auto load = [&](int key) {
    lru.get(key, []() -> Lru<int, platform::Module>::Sized {
      return {std::make_shared<FakeModule>(), 1000};
    });
  };
  for (int i = 0; i < 1000; ++i) load(i);
  const std::size_t files = open_files();
  [[maybe_unused]] const std::size_t memory = resident_kilobytes();
  for (int i = 1000; i < 65000; ++i) load(i);
  EXPECT_EQ(FakeModule::alive, 16);
  EXPECT_EQ(open_files(), files);
  // AddressSanitizer keeps freed memory back; there its leak check speaks.
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(resident_kilobytes(), memory + 4096);
#endif
  lru.clear();
  EXPECT_EQ(FakeModule::alive, 0);
}

}  // namespace
}  // namespace hipflash::jit
