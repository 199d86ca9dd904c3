// Serving by general kernels while specialized ones are made.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "api/problem_hash.h"
#include "hipflash/context.h"
#include "jit/lru.h"

namespace hipflash {

// Thread-safe. Its thread starts when there is something to make and ends with it.
class Meanwhile {
 public:
  // `make` makes and remembers a problem's specialized plan.
  Meanwhile(bool on, std::function<void(const Problem&)> make);
  ~Meanwhile();  // waits for the plan that is being made; others are not begun
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

  // The plan that serves for now, which `general` makes at the first call for a problem; null when
  // there is none. The specialized one is then made in the background.
  using General = std::function<std::shared_ptr<Plan::Impl>(const Problem&)>;
  std::shared_ptr<Plan::Impl> plan(const Problem& problem, const General& general);

 private:
  void work();

  const bool on_;
  const std::function<void(const Problem&)> make_;
  jit::Lru<Problem, Plan::Impl, ProblemHash> serving_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Problem> wanted_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace hipflash
