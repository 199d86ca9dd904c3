// Threads for compiling ahead. None exists until the first job is submitted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hipflash::jit {

class CompilePool {
 public:
  explicit CompilePool(unsigned max_threads);
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;
  ~CompilePool();  // finishes running jobs; queued ones are destroyed without being run

  // Jobs must not throw. Runs the job on the caller if no thread can be made.
  void submit(std::function<void()> job);

 private:
  void work();

  const std::size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace hipflash::jit
