#include "cache/lock.h"

#include <atomic>
#include <thread>
#include <vector>

#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using std::chrono::milliseconds;
using testing::TempFolder;
using Clock = std::chrono::steady_clock;

TEST(Lock, ExcludesThreadsOfOneProcess) {
  const TempFolder temp;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5; ++j) {
        const FileLock lock = FileLock::acquire(temp / "lock", milliseconds(20000));
        ASSERT_TRUE(lock.held()) << lock.reason();
        most = std::max(most.load(), ++inside);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_TRUE(std::filesystem::exists(temp / "lock"));
}

TEST(Lock, WaitIsBounded) {
  const TempFolder temp;
  FileLock first = FileLock::acquire(temp / "lock", milliseconds(0));
  ASSERT_TRUE(first.held());
  const Clock::time_point begin = Clock::now();
  const FileLock second = FileLock::acquire(temp / "lock", milliseconds(100));
  const auto waited = Clock::now() - begin;
  EXPECT_EQ(second.state(), FileLock::State::TimedOut);
  EXPECT_FALSE(second.reason().empty());
  EXPECT_GE(waited, milliseconds(99));
  EXPECT_LT(waited, milliseconds(5000));
  first.release();
  EXPECT_TRUE(FileLock::acquire(temp / "lock", milliseconds(0)).held());
}

TEST(Lock, KilledHolderReleases) {
  const TempFolder temp;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = testing::start_child([&] {
    const FileLock lock = FileLock::acquire(temp / "lock", milliseconds(0));
    if (!lock.held() || write(ready[1], "x", 1) != 1) return 1;
    for (;;) pause();
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(FileLock::acquire(temp / "lock", milliseconds(20)).state(), FileLock::State::TimedOut);
  kill(child, SIGKILL);
  testing::wait_for(child);
  EXPECT_TRUE(FileLock::acquire(temp / "lock", milliseconds(5000)).held());
  close(ready[0]);
  close(ready[1]);
}

TEST(Lock, ReleaseHoldsForForkedChildrenToo) {
  const TempFolder temp;
  FileLock lock = FileLock::acquire(temp / "lock", milliseconds(0));
  ASSERT_TRUE(lock.held());
  const pid_t child = testing::start_child([]() -> int {
    for (;;) pause();
  });
  lock.release();
  EXPECT_TRUE(FileLock::acquire(temp / "lock", milliseconds(0)).held());
  kill(child, SIGKILL);
  testing::wait_for(child);
}

TEST(Lock, WaiterOfARemovedFileTakesTheNewOne) {
  const TempFolder temp;
  FileLock first = FileLock::acquire(temp / "lock", milliseconds(0));
  std::thread waiter([&] {
    const FileLock second = FileLock::acquire(temp / "lock", milliseconds(5000));
    ASSERT_TRUE(second.held()) << second.reason();
    EXPECT_EQ(FileLock::acquire(temp / "lock", milliseconds(0)).state(), FileLock::State::TimedOut);
  });
  std::this_thread::sleep_for(milliseconds(50));
  std::filesystem::remove(temp / "lock");
  first.release();
  waiter.join();
}

TEST(Lock, UnavailableSaysWhy) {
  const TempFolder temp;
  const FileLock lock = FileLock::acquire(temp.path() / "missing" / "lock", milliseconds(1000));
  EXPECT_EQ(lock.state(), FileLock::State::Unavailable);
  EXPECT_NE(lock.reason().find("missing"), std::string::npos);
  std::filesystem::create_symlink("/dev/null", temp / "link");
  EXPECT_FALSE(FileLock::acquire(temp / "link", milliseconds(0)).held());
}

TEST(Lock, MovesKeepIt) {
  const TempFolder temp;
  FileLock first = FileLock::acquire(temp / "lock", milliseconds(0));
  FileLock second = std::move(first);
  EXPECT_TRUE(second.held());
  second = FileLock();
  EXPECT_TRUE(FileLock::acquire(temp / "lock", milliseconds(0)).held());
}

}  // namespace
}  // namespace hipflash::cache
