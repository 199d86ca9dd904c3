// The threads of the CPU platform. They belong to the library: kernels never start any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace hipflash::platform {

// CPUs that this process may use: its affinity mask, limited by its control group's quota.
int available_cpus();

// Runs numbered items on a fixed number of threads, the caller's included. Several callers may run
// at once; each waits for its own items only. Threads start at the first parallel run, so making a
// pool costs nothing.
class ThreadPool {
 public:
  // `threads` counts the caller's.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return threads_; }

  // Calls item(context, i) for every i in [0, count), in order of i as threads become free.
  // Items must not throw.
  using Item = void (*)(void* context, std::int64_t i);
  void run(std::int64_t count, Item item, void* context);

 private:
  struct Job {
    Item item;
    void* context;
    std::int64_t count;
    std::atomic<std::int64_t> next{0};
    std::atomic<int> helpers{0};  // workers inside this job
  };

  static void work(Job& job);
  void start_workers();
  void worker_loop();

  const int threads_;
  std::mutex mutex_;
  std::condition_variable wake_, left_;
  std::vector<Job*> jobs_;  // those with items left to hand out
  std::vector<std::thread> workers_;
  bool started_ = false;
  bool stopping_ = false;
};

}  // namespace hipflash::platform
