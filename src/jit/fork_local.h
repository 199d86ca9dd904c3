// State with locks and threads that must not be used in a child after fork.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace hipflash::jit {

// One T per process. A child gets a fresh one: the parent's may have a mutex locked, or a thread
// counted, by a thread that the child does not have, so the child leaves it alone and never frees
// it.
template <class T>
class ForkLocal {
 public:
  explicit ForkLocal(std::function<std::unique_ptr<T>()> make)
      : make_(std::move(make)), current_(new Copy{::getpid(), make_()}) {}
  ForkLocal(const ForkLocal&) = delete;
  ForkLocal& operator=(const ForkLocal&) = delete;

  ~ForkLocal() {
    Copy* const copy = current_.load();
    if (copy->process == ::getpid()) delete copy;
  }

  T& operator*() const {
    Copy* copy = current_.load(std::memory_order_acquire);
    const pid_t process = ::getpid();
    while (copy->process != process) {  // several threads of the child may get here at once
      auto fresh = std::make_unique<Copy>(Copy{process, make_()});
      if (current_.compare_exchange_strong(copy, fresh.get(), std::memory_order_acq_rel)) {
        copy = fresh.release();
      }
    }
    return *copy->value;
  }
  T* operator->() const { return &**this; }

 private:
  struct Copy {
    pid_t process;
    std::unique_ptr<T> value;
  };

  const std::function<std::unique_ptr<T>()> make_;
  mutable std::atomic<Copy*> current_;
};

}  // namespace hipflash::jit
