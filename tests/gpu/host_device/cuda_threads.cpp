#include "gpu/host_device/cuda_threads.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gpu/host_block.h"
#include "gpu/host_device/async_engines.h"

namespace hipflash::host {
namespace {

constexpr unsigned kWarp = 32;

struct Copy {
  unsigned char* to;
  int size;
  unsigned char data[16];
};

struct Thread {
  bool voted = false;
  std::deque<std::vector<Copy>> copies;
  std::vector<Copy> open_group;
};

struct Free {
  void operator()(unsigned char* memory) const { std::free(memory); }
};

// The block that runs.
struct Block {
  Grid grid;
  std::function<void()> before;
  std::vector<Thread> threads;
  std::unique_ptr<unsigned char, Free> shared;
};
Block* running = nullptr;

Thread& me() {
  return running->threads[host_block::thread_number()];
}

void arrive(const std::vector<Copy>& group) {
  for (const Copy& copy : group) {
    if (copy.size == 16) __asan_unpoison_memory_region(copy.to, 16);
    std::memcpy(copy.to, copy.data, static_cast<std::size_t>(copy.size));
  }
}

std::unique_ptr<unsigned char, Free> take_shared(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  if (::posix_memalign(&data, 1024, bytes) != 0) throw std::bad_alloc();
  std::memset(data, 0xff, bytes);
  return std::unique_ptr<unsigned char, Free>(static_cast<unsigned char*>(data));
}

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& thread,
              const std::function<void()>& before) {
  const unsigned threads = grid.threads_x * grid.threads_y;
  Block block = {grid, before, std::vector<Thread>(threads), nullptr};
  const struct Restore {
    Block* outer;  // whose thread waits for this grid
    ~Restore() { running = outer; }
  } restore{std::exchange(running, &block)};
  for (unsigned i = 0; i < grid.blocks; i++) {
    block.shared = take_shared(grid.shared_bytes);
    const host_device::Engines engines(threads);
    host_block::run({i, threads, kWarp, i % 2 != 0}, [&] {
      thread();
      if (const char* const left = engines.what_thread_left()) fail(left);
      Thread& mine = me();
      mine.voted = false;
      if (!mine.copies.empty() || !mine.open_group.empty()) {
        fail("a thread ended before its copies into shared memory arrived");
      }
    });
    if (const char* const left = engines.what_block_left()) throw std::runtime_error(left);
  }
  wait_for_launch_before();
}

Index thread_index() {
  const unsigned number = host_block::thread_number(), x = running->grid.threads_x;
  return {number % x, number / x, 0};
}
Index block_index() {
  return {host_block::block_number(), 0, 0};
}
Index grid_size() {
  return {running->grid.blocks, 1, 1};
}
unsigned char* shared_memory() {
  return running->shared.get();
}

void barrier(int number, int threads) {
  threads == 0 ? host_block::barrier()
               : host_block::barrier(number, static_cast<unsigned>(threads));
}
bool barrier_or(bool mine) {
  me().voted = mine;
  barrier(0, 0);
  const auto& all = running->threads;
  const bool any = std::any_of(all.begin(), all.end(), [](const Thread& t) { return t.voted; });
  barrier(0, 0);
  return any;
}

const char* exchange(const void* mine, int bytes) {
  return host_block::exchange(mine, static_cast<std::size_t>(bytes));
}

void copy_later(unsigned char* to, const char* from, int bytes, int size) {
  Copy copy = {to, size, {}};
  std::memcpy(copy.data, from, static_cast<std::size_t>(bytes));
  std::memset(to, 0xff, static_cast<std::size_t>(size));
  // Parts of an eight-byte granule cannot be closed off.
  if (size == 16) __asan_poison_memory_region(to, 16);
  me().open_group.push_back(copy);
}
void end_copies() {
  me().copies.push_back(std::move(me().open_group));
  me().open_group.clear();
}
void wait_copies(int pending) {
  Thread& mine = me();
  while (mine.copies.size() > static_cast<std::size_t>(pending)) {
    arrive(mine.copies.front());
    mine.copies.pop_front();
  }
}

void wait_for_launch_before() {
  if (const std::function<void()> before = std::exchange(running->before, nullptr)) before();
}

void fail(const char* rule) {
  host_block::fail(rule);
}

}  // namespace hipflash::host
