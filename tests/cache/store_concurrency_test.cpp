// Many threads of many processes on one cache folder.
#include <atomic>
#include <thread>
#include <vector>

#include "cache/store.h"
#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using std::chrono::seconds;
using testing::sample_code;
using testing::sample_info;
using testing::TempFolder;

constexpr int kProcesses = 8;
constexpr int kThreads = 16;
constexpr unsigned kKeys = 6;

EntryInfo info_of(unsigned i) {
  return sample_info(fmt::format("family{}", i));
}
Bytes code_of(unsigned i) {
  return sample_code(i, 2000 + 500 * i);
}

// Runs body(process, thread) everywhere at once; the number of processes that did not exit with 0.
int run_everywhere(const std::function<bool(int, int)>& body) {
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(testing::start_child([&] {
      std::atomic<int> failures{0};
      std::vector<std::thread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          if (!body(process, thread)) ++failures;
        });
      }
      for (std::thread& thread : threads) thread.join();
      return failures == 0 ? 0 : 1;
    }));
  }
  int failures = 0;
  for (const pid_t child : children) {
    if (!testing::exited_with(testing::wait_for(child), 0)) ++failures;
  }
  return failures;
}

TEST(StoreConcurrency, ColdCacheIsFilledOncePerKey) {
  const TempFolder temp;
  Store store(open_directory(temp / "c"));
  const auto compile = [&](unsigned i) {
    const int fd = open((temp / fmt::format("compiles{}", i)).c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const bool counted = write(fd, "x", 1) == 1;
    close(fd);
    return counted;
  };
  const auto get = [&](unsigned i) -> bool {
    const std::string key = key_of(info_of(i).inputs);
    if (const auto entry = store.find(key)) return entry->code == code_of(i);
    const FileLock lock = store.lock(key, seconds(60));
    if (!lock.held()) return false;
    if (const auto entry = store.find(key)) return entry->code == code_of(i);
    return compile(i) && store.put(info_of(i), code_of(i));
  };
  EXPECT_EQ(run_everywhere([&](int process, int thread) {
              bool right = true;
              for (unsigned i = 0; i < kKeys; ++i) {
                right &= get((i + static_cast<unsigned>(process + thread)) % kKeys);
              }
              return right;
            }),
            0);
  for (unsigned i = 0; i < kKeys; ++i) {
    EXPECT_EQ(std::filesystem::file_size(temp / fmt::format("compiles{}", i)), 1u);
    EXPECT_TRUE(std::filesystem::exists(temp.path() / "c" / "locks" /
                                        (key_of(info_of(i).inputs) + ".lock")));
  }
  EXPECT_EQ(store.list().size(), kKeys);
}

TEST(StoreConcurrency, PutFindPruneAndClearTogether) {
  const TempFolder temp;
  Limits limits;
  limits.max_entries = 3;
  Store store(open_directory(temp.path()), limits);
  EXPECT_EQ(run_everywhere([&](int process, int thread) {
              bool right = true;
              for (unsigned turn = 0; turn < 3; ++turn) {
                const unsigned i = (turn + static_cast<unsigned>(process * 3 + thread)) % kKeys;
                switch (thread % 4) {
                  case 0:
                    store.put(info_of(i), code_of(i));
                    break;
                  case 1:
                    store.prune();
                    break;
                  default:
                    if (const auto entry = store.find(key_of(info_of(i).inputs))) {
                      right &= entry->code == code_of(i);
                    }
                }
                if (process == 0 && thread == 0) store.clear();
              }
              return right && store.writable();
            }),
            0);
  store.prune();
  EXPECT_LE(store.list().size(), 3u);
  for (const Listed& listed : store.verify()) EXPECT_EQ(listed.fault, "");
}

}  // namespace
}  // namespace hipflash::cache
