#include "jit/compile_pool.h"

#include <algorithm>
#include <system_error>

namespace hipflash::jit {

CompilePool::CompilePool(unsigned max_threads)
    : max_threads_(max_threads != 0 ? max_threads
                                    : std::max(1u, std::thread::hardware_concurrency())) {}

CompilePool::~CompilePool() {
  std::deque<std::function<void()>> dropped;  // destroyed after the lock
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CompilePool::submit(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
    job = nullptr;
    if (idle_ < jobs_.size() && threads_.size() < max_threads_) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        if (threads_.empty()) {
          job = std::move(jobs_.back());
          jobs_.pop_back();
        }
      }
    }
  }
  wake_.notify_one();
  if (job) job();
}

void CompilePool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (stopping_) return;
    {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
  }
}

}  // namespace hipflash::jit
