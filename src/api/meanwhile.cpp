#include "api/meanwhile.h"

#include <exception>

#include "core/log.h"

namespace hipflash {
namespace {

constexpr std::size_t kMaxServing = 4096;

}  // namespace

Meanwhile::Meanwhile(bool on, std::function<void(const Problem&)> make)
    : on_(on), make_(std::move(make)), serving_({.count = kMaxServing}) {}

Meanwhile::~Meanwhile() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Plan::Impl> Meanwhile::plan(const Problem& problem, const General& general) {
  if (!on_) return nullptr;
  if (auto serving = serving_.find(problem)) return serving;
  auto made = general(problem);
  if (!made) return nullptr;
  const std::scoped_lock lock(mutex_);
  if (auto serving = serving_.find(problem)) return serving;  // another thread was faster
  serving_.put(problem, made, 1);
  wanted_.push_back(problem);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  wake_.notify_all();
  return made;
}

void Meanwhile::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !wanted_.empty(); });
    if (stopping_) return;
    const Problem problem = wanted_.front();
    wanted_.pop_front();
    lock.unlock();
    try {
      make_(problem);
      serving_.erase(problem);
    } catch (const std::exception& error) {
      log(LogLevel::error, "a general kernel serves on, since the specialized one failed: {}",
          error.what());
    }
    lock.lock();
  }
}

}  // namespace hipflash
