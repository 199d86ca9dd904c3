// A thread-safe least-recently-used map of shared values, with caps on count and bytes.
//
// Values in use are never destroyed by the map: eviction only drops the map's reference, and the
// value dies with its last user. A missing value is loaded once, whatever the number of threads
// that ask for it; the others wait. No lock is held while a value is loaded or destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hipflash::jit {

struct LruCaps {
  std::size_t count = SIZE_MAX;
  std::size_t bytes = SIZE_MAX;
};

template <class Key, class Value, class Hash = std::hash<Key>>
class Lru {
 public:
  using Pointer = std::shared_ptr<Value>;

  // A value and what it counts against the byte cap.
  struct Sized {
    Pointer value;
    std::size_t bytes = 0;
  };

  // `on_evict` is told of values that a cap pushed out, on the thread that caused it.
  using OnEvict = std::function<void(const Key&, const Pointer&)>;

  explicit Lru(LruCaps caps, OnEvict on_evict = {}) : caps_(caps), on_evict_(std::move(on_evict)) {}
  Lru(const Lru&) = delete;
  Lru& operator=(const Lru&) = delete;

  // The value of `key`, else what `load()` returns (a Sized). If it throws, all who wait get the
  // exception and the next call tries again. `loaded`, if given, says whether this call loaded it.
  template <class Load>
  Pointer get(const Key& key, Load&& load, bool* loaded = nullptr) {
    if (loaded) *loaded = false;
    std::promise<Pointer> promise;
    {
      std::unique_lock lock(mutex_);
      if (Pointer found = touch(key)) return found;
      if (const auto waiting = loading_.find(key); waiting != loading_.end()) {
        const std::shared_future<Pointer> other = waiting->second;
        lock.unlock();
        return other.get();
      }
      loading_.emplace(key, promise.get_future().share());
    }
    try {
      Sized made = std::forward<Load>(load)();
      if (loaded) *loaded = true;
      insert(key, made, /*finished=*/true);
      promise.set_value(made.value);
      return made.value;
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        loading_.erase(key);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  // Null when absent. Counts as a use.
  Pointer find(const Key& key) {
    const std::scoped_lock lock(mutex_);
    return touch(key);
  }

  void put(const Key& key, Pointer value, std::size_t bytes) {
    insert(key, {std::move(value), bytes}, /*finished=*/false);
  }

  void erase(const Key& key) {
    Pointer dropped;  // destroyed after the lock
    const std::scoped_lock lock(mutex_);
    dropped = take(key);
  }

  void clear() {
    std::list<Entry> dropped;
    const std::scoped_lock lock(mutex_);
    dropped.swap(order_);
    index_.clear();
    bytes_ = 0;
  }

  std::size_t count() const {
    const std::scoped_lock lock(mutex_);
    return index_.size();
  }

  std::size_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    Key key;
    Pointer value;
    std::size_t bytes;
  };
  using Order = std::list<Entry>;  // most recently used first

  Pointer touch(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return at->second->value;
  }

  Pointer take(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    Pointer value = std::move(at->second->value);
    bytes_ -= at->second->bytes;
    order_.erase(at->second);
    index_.erase(at);
    return value;
  }

  void insert(const Key& key, Sized made, bool finished) {
    Order evicted;  // destroyed after the lock
    Pointer replaced;
    {
      const std::scoped_lock lock(mutex_);
      replaced = take(key);
      order_.push_front({key, std::move(made.value), made.bytes});
      index_.emplace(key, order_.begin());
      bytes_ += made.bytes;
      // The newest stays even if it alone is over the cap: it is about to be used.
      while (order_.size() > 1 && (order_.size() > caps_.count || bytes_ > caps_.bytes)) {
        const auto last = std::prev(order_.end());
        bytes_ -= last->bytes;
        index_.erase(last->key);
        evicted.splice(evicted.end(), order_, last);
      }
      if (finished) loading_.erase(key);
    }
    if (on_evict_) {
      for (const Entry& entry : evicted) on_evict_(entry.key, entry.value);
    }
  }

  const LruCaps caps_;
  const OnEvict on_evict_;
  mutable std::mutex mutex_;
  Order order_;
  std::unordered_map<Key, typename Order::iterator, Hash> index_;
  std::unordered_map<Key, std::shared_future<Pointer>, Hash> loading_;
  std::size_t bytes_ = 0;
};

}  // namespace hipflash::jit
