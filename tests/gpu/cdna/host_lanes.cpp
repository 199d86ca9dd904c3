#include "host_lanes.h"

#include <ucontext.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace host_lanes {
namespace {

constexpr int kWave = 64;
constexpr std::size_t kStack = 512 * 1024;
constexpr int kLargestExchange = 64;  // bytes of one lane

enum class State { runs, exchanges, at_barrier, done };

struct Lane {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStack);
  State state = State::runs;
  int exchanges = 0;  // so far; its parity chooses the wave's board
};

struct Block {
  int index = 0;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<char> boards;  // of each wave: two, so that one can be read while the next is written
  std::vector<char> shared;
  std::function<void()> body;
  ucontext_t scheduler;
  int current = 0;
};
Block* running = nullptr;

#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack = nullptr;
std::size_t scheduler_stack_size = 0;
#endif

void to_scheduler(Lane& lane) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(lane.state == State::done ? nullptr : &fake, scheduler_stack,
                                 scheduler_stack_size);
#endif
  swapcontext(&lane.context, &running->scheduler);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void to_lane(Lane& lane) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, lane.stack.data(), lane.stack.size());
#endif
  swapcontext(&running->scheduler, &lane.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void lane_main() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
#endif
  Lane& lane = *running->lanes[static_cast<std::size_t>(running->current)];
  running->body();
  lane.state = State::done;
  to_scheduler(lane);
}

char* board(int wave, int parity) {
  return running->boards.data() + (2 * wave + parity) * kWave * kLargestExchange;
}

void wait_as(State state) {
  Lane& lane = *running->lanes[static_cast<std::size_t>(running->current)];
  lane.state = state;
  to_scheduler(lane);
}

// Lets go whoever has all its partners. False if nobody has.
bool release(Block& block) {
  bool any = false, all_at_barrier = true;
  const std::size_t threads = block.lanes.size();
  for (std::size_t wave = 0; wave < threads; wave += kWave) {
    bool all = true;
    for (std::size_t i = wave; i < wave + kWave; i++) {
      all = all && block.lanes[i]->state == State::exchanges;
      all_at_barrier = all_at_barrier && block.lanes[i]->state == State::at_barrier;
    }
    if (!all) continue;
    for (std::size_t i = wave; i < wave + kWave; i++) block.lanes[i]->state = State::runs;
    any = true;
  }
  if (all_at_barrier) {
    for (auto& lane : block.lanes) lane->state = State::runs;
  }
  return any || all_at_barrier;
}

}  // namespace

void run_block(int index, int threads, Order order, const std::function<void()>& lane) {
  static std::vector<std::unique_ptr<Lane>> pool;  // stacks are used again
  while (static_cast<int>(pool.size()) < threads) pool.push_back(std::make_unique<Lane>());
  Block block;
  block.index = index;
  block.body = lane;
  block.boards.resize(static_cast<std::size_t>(threads) * 2 * kLargestExchange);
  for (int i = 0; i < threads; i++)
    block.lanes.push_back(std::move(pool[static_cast<std::size_t>(i)]));
  pool.erase(pool.begin(), pool.begin() + threads);
  running = &block;
  for (auto& l : block.lanes) {
    l->state = State::runs;
    l->exchanges = 0;
    getcontext(&l->context);
    l->context.uc_stack.ss_sp = l->stack.data();
    l->context.uc_stack.ss_size = l->stack.size();
    l->context.uc_link = nullptr;
    makecontext(&l->context, lane_main, 0);
  }
  bool unfinished = true;
  while (unfinished) {
    unfinished = false;
    bool ran = false;
    for (int i = 0; i < threads; i++) {
      block.current = order == Order::forward ? i : threads - 1 - i;
      Lane& next = *block.lanes[static_cast<std::size_t>(block.current)];
      if (next.state == State::runs) {
        to_lane(next);
        ran = true;
      }
      unfinished = unfinished || next.state != State::done;
    }
    if (unfinished && !release(block) && !ran) {
      throw std::runtime_error("the lanes of a block wait for each other in different places");
    }
  }
  for (auto& l : block.lanes) pool.push_back(std::move(l));
  running = nullptr;
}

int thread_id() {
  return running->current;
}
int block_id() {
  return running->index;
}

char* shared_memory(int bytes) {
  if (running->shared.empty()) running->shared.assign(static_cast<std::size_t>(bytes), '\xff');
  return running->shared.data();
}

void barrier() {
  wait_as(State::at_barrier);
}

const char* exchange(const void* mine, int bytes) {
  const int id = running->current, wave = id / kWave;
  Lane& lane = *running->lanes[static_cast<std::size_t>(id)];
  const int parity = lane.exchanges++ % 2;
  std::memcpy(board(wave, parity) + id % kWave * bytes, mine, static_cast<std::size_t>(bytes));
  wait_as(State::exchanges);
  return board(wave, parity);
}

}  // namespace host_lanes
