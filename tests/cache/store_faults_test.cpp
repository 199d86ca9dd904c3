// Faults of single system calls, and death at each of them.
#include <cerrno>
#include <cstring>

#include "cache/store.h"
#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using testing::InjectedCalls;
using testing::log_lines;
using testing::sample_code;
using testing::sample_info;
using testing::TempFolder;

// The fault to inject: at the call with this number, counted over all writing calls.
struct Plan {
  int countdown = -1;  // calls until it happens; below zero: never
  int error = 0;       // the errno to give, or 0 to die by SIGKILL
  int calls = 0;       // made so far
};
Plan plan;

// True when the call must fail; errno is set.
bool struck() {
  ++plan.calls;
  if (plan.countdown < 0 || plan.countdown-- != 0) return false;
  if (plan.error == 0) kill(getpid(), SIGKILL);
  errno = plan.error;
  return true;
}

// Like the system's calls, but writes go in small pieces and each call may be struck.
const io::Calls kFaulty = {
    .open = [](const char* path, int flags,
               mode_t mode) { return struck() ? -1 : io::kSystem.open(path, flags, mode); },
    .read = io::kSystem.read,
    .write =
        [](int fd, const void* data, std::size_t size) {
          return struck() ? ssize_t{-1}
                          : io::kSystem.write(fd, data, std::min(size, std::size_t{700}));
        },
    .fsync = [](int fd) { return struck() ? -1 : io::kSystem.fsync(fd); },
    .close =
        [](int fd) {
          const bool fails = struck();
          const int error = errno;
          const int status = io::kSystem.close(fd);
          errno = error;
          return fails ? -1 : status;
        },
    .rename = [](const char* from,
                 const char* to) { return struck() ? -1 : io::kSystem.rename(from, to); },
    .unlink = [](const char* path) { return struck() ? -1 : io::kSystem.unlink(path); },
};

int calls_of_a_put(const std::filesystem::path& folder) {
  const InjectedCalls injected(kFaulty);
  plan = {};
  Store store(open_directory(folder));
  EXPECT_TRUE(store.put(sample_info("counting"), sample_code(1, 3000)));
  return plan.calls;
}

TEST(StoreFaults, KilledAtEachStep) {
  const TempFolder temp;
  const std::string key = key_of(sample_info().inputs);
  const int steps = calls_of_a_put(temp / "count");
  ASSERT_GE(steps, 8);
  bool seen_missing = false;
  bool seen_whole = false;
  for (int step = 0; step <= steps; ++step) {
    const auto folder = temp / fmt::format("c{}", step);
    const int status = testing::run_child([&] {
      const InjectedCalls injected(kFaulty);
      plan = {.countdown = step, .error = 0};
      Store store(open_directory(folder));
      const FileLock lock = store.lock(key, std::chrono::milliseconds(0));
      store.put(sample_info(), sample_code(1, 3000));
      return 0;
    });
    EXPECT_TRUE(WIFSIGNALED(status) || testing::exited_with(status, 0)) << step;
    const int lines = log_lines([&] {
      Store store(open_directory(folder));
      EXPECT_TRUE(store.lock(key, std::chrono::milliseconds(5000)).held());
      const auto left = store.find(key);
      (left ? seen_whole : seen_missing) = true;
      if (left) {
        EXPECT_EQ(left->code, sample_code(1, 3000));
      }
      EXPECT_TRUE(store.put(sample_info(), sample_code(1, 3000)));
      ASSERT_TRUE(store.find(key));
    });
    EXPECT_EQ(lines, 0) << "a half-written entry was visible at step " << step;
  }
  EXPECT_TRUE(seen_missing);
  EXPECT_TRUE(seen_whole);
}

TEST(StoreFaults, EachErrorAtEachStep) {
  const TempFolder temp;
  const std::string key = key_of(sample_info().inputs);
  const int steps = calls_of_a_put(temp / "count");
  for (const int error : {ENOSPC, EIO, EDQUOT, EROFS, EINTR, EMFILE, ENOENT, EACCES}) {
    for (int step = 0; step < steps; ++step) {
      const auto folder = temp / fmt::format("c{}-{}", error, step);
      Store store(open_directory(folder));
      bool stored = false;
      const int lines = log_lines([&] {
        const InjectedCalls injected(kFaulty);
        plan = {.countdown = step, .error = error};
        stored = store.put(sample_info(), sample_code(1, 3000));
        plan.countdown = -1;
        store.put(sample_info("second"), sample_code(1, 3000));
      });
      EXPECT_LE(lines, 1) << std::strerror(error) << " at " << step;
      // A store that says it stored did; one that does not left nothing half-written behind.
      Store next(open_directory(folder));
      const auto found = next.find(key);
      EXPECT_EQ(found.has_value(), stored) << std::strerror(error) << " at " << step;
      if (found) {
        EXPECT_EQ(found->code, sample_code(1, 3000));
      }
      for (const auto& at : std::filesystem::directory_iterator(folder)) {
        EXPECT_FALSE(at.path().filename().string().starts_with("tmp-")) << at.path();
      }
    }
  }
}

TEST(StoreFaults, FullDiskStopsWritingWithOneWarning) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  ASSERT_TRUE(store.put(sample_info("before"), sample_code(1, 3000)));
  io::Calls full = io::kSystem;
  full.write = [](int, const void*, std::size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  const InjectedCalls injected(full);
  std::string text;
  const int lines = log_lines(
      [&] {
        for (int i = 0; i < 3; ++i) EXPECT_FALSE(store.put(sample_info(), sample_code(1, 3000)));
      },
      &text);
  EXPECT_EQ(lines, 1);
  EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
  EXPECT_FALSE(store.writable());
  EXPECT_NE(store.degraded_reason().find("No space"), std::string::npos);
  EXPECT_TRUE(store.find(key_of(sample_info("before").inputs)));
}

TEST(StoreFaults, RenameThatLosesARaceKeepsTheStoreWriting) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  io::Calls racing = io::kSystem;
  // A network file system that did rename, lost the answer, and fails the retry.
  racing.rename = [](const char* from, const char* to) {
    io::kSystem.rename(from, to);
    errno = ENOENT;
    return -1;
  };
  log_lines([&] {
    const InjectedCalls injected(racing);
    EXPECT_FALSE(store.put(sample_info(), sample_code(1, 3000)));
  });
  EXPECT_TRUE(store.writable());
  EXPECT_TRUE(store.find(key_of(sample_info().inputs)));
  EXPECT_TRUE(store.put(sample_info("next"), sample_code(1, 3000)));
}

TEST(StoreFaults, ReadErrorIsAMissAndRemovesNothing) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  const std::string key = key_of(sample_info().inputs);
  ASSERT_TRUE(store.put(sample_info(), sample_code(1, 3000)));
  io::Calls failing = io::kSystem;
  failing.read = [](int, void*, std::size_t) -> ssize_t {
    errno = EIO;
    return -1;
  };
  const int lines = log_lines([&] {
    const InjectedCalls injected(failing);
    EXPECT_FALSE(store.find(key));
    EXPECT_FALSE(store.find(key));
  });
  EXPECT_EQ(lines, 1);
  EXPECT_TRUE(store.find(key));
}

TEST(StoreFaults, ShortAndInterruptedReads) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  ASSERT_TRUE(store.put(sample_info(), sample_code(1, 3000)));
  io::Calls slow = io::kSystem;
  slow.read = [](int fd, void* data, std::size_t size) -> ssize_t {
    static int turn = 0;
    if (++turn % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    return io::kSystem.read(fd, data, std::min(size, std::size_t{100}));
  };
  const InjectedCalls injected(slow);
  EXPECT_TRUE(store.find(key_of(sample_info().inputs)));
  EXPECT_EQ(store.list().size(), 1u);
}

}  // namespace
}  // namespace hipflash::cache
