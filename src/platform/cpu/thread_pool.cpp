#include "platform/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <system_error>

namespace hipflash::platform {
namespace {

// The control group's CPU quota in whole CPUs (cgroup v2), or 0 when there is none.
int quota_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0.0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0.0) return 0;
  const double cpus = std::strtod(quota.c_str(), nullptr) / period;
  return cpus > 0.0 ? std::max(1, static_cast<int>(std::ceil(cpus))) : 0;
}

}  // namespace

int available_cpus() {
  int cpus = 0;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
  if (cpus <= 0) cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpus = std::max(cpus, 1);
  const int quota = quota_cpus();
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start_workers() {
  if (started_) return;
  started_ = true;
  for (int i = 1; i < threads_; ++i) {
    try {
      workers_.emplace_back([this] { worker_loop(); });
    } catch (const std::system_error&) {
      break;  // a thread limit: the caller and the workers so far do the work
    }
  }
}

void ThreadPool::work(Job& job) {
  for (;;) {
    const std::int64_t i = job.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= job.count) return;
    job.item(job.context, i);
  }
}

void ThreadPool::worker_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job* const job = jobs_.front();
    job->helpers.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    work(*job);
    lock.lock();
    std::erase(jobs_, job);  // all its items are handed out
    if (job->helpers.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
  }
}

void ThreadPool::run(std::int64_t count, Item item, void* context) {
  if (threads_ == 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) item(context, i);
    return;
  }
  Job job{item, context, count};
  {
    const std::lock_guard lock(mutex_);
    start_workers();
    jobs_.push_back(&job);
  }
  const auto wanted = std::min<std::int64_t>(count - 1, threads_ - 1);
  if (wanted == 1) {
    wake_.notify_one();
  } else {
    wake_.notify_all();
  }
  work(job);
  // The job lives on this stack: leave only when no worker can touch it any more.
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  left_.wait(lock, [&] { return job.helpers.load(std::memory_order_acquire) == 0; });
}

}  // namespace hipflash::platform
