#include "gpu/host_block.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/fibers.h"

namespace host_block {
namespace {

using fibers::Fiber;

void run_threads();

struct Thread {
  Fiber fiber{run_threads};  // one thread after another
  bool runs = true;          // and does not wait
  unsigned exchanges = 0;    // so far; its parity chooses the warp's board
};

// Threads that wait for one another.
struct Meeting {
  unsigned arrived = 0;
  std::vector<Thread*> waiting;
};

struct Warp {
  explicit Warp(std::size_t board)
      : boards{std::make_unique_for_overwrite<char[]>(board),
               std::make_unique_for_overwrite<char[]>(board)} {}
  Meeting meeting;
  std::size_t bytes = 0;  // what each thread brings to this meeting
  // Two, so that one can be read while the next is written.
  std::unique_ptr<char[]> boards[2];
};

struct Block {
  Shape shape;
  const std::function<void()>* body;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;
  Meeting everyone;  // who has not ended
  std::map<int, Meeting> barriers;
  std::map<const void*, Meeting> sleepers;
  unsigned living, current;
  Fiber caller;
  std::exception_ptr failure;
};
Block* running = nullptr;

Thread& me() {
  return *running->threads[running->current];
}

// Of `count` threads from `first` on, the next that can run in the block's order; null if none can.
Thread* find_next_of(unsigned first, unsigned count) {
  const unsigned from = running->current - first;
  for (unsigned i = 1; i <= count; i++) {
    const unsigned at = first + (running->shape.backwards ? from + count - i : from + i) % count;
    Thread& thread = *running->threads[at];
    if (!thread.runs) continue;
    running->current = at;
    return &thread;
  }
  return nullptr;
}

// The next thread that can run, of the warp if there is one; null if none can.
Thread* find_next() {
  const unsigned count = running->shape.threads, warp = running->shape.warp;
  const unsigned first = running->current / warp * warp;
  if (Thread* const next = find_next_of(first, std::min(warp, count - first))) return next;
  return find_next_of(0, count);
}

void go_on_elsewhere() {
  Thread& mine = me();
  Thread* const next = find_next();
  if (next != &mine) mine.fiber.leave_for(next ? next->fiber : running->caller);
}

void part(Meeting& meeting) {
  for (Thread* thread : meeting.waiting) thread->runs = true;
  meeting.arrived = 0;
  meeting.waiting.clear();
}

// Waits for `expected` threads, of which this is one.
void meet(Meeting& meeting, unsigned expected) {
  if (++meeting.arrived < expected) {
    me().runs = false;
    meeting.waiting.push_back(&me());
  } else {
    part(meeting);
  }
  go_on_elsewhere();
}

void end_thread() {
  me().runs = false;
  --running->living;
  // The others may be waiting for all that are left.
  Meeting& everyone = running->everyone;
  if (everyone.arrived == running->living) part(everyone);
  go_on_elsewhere();
}

void run_threads() {
  for (;;) {
    try {
      (*running->body)();
    } catch (...) {
      running->failure = std::current_exception();
    }
    if (running->failure) me().fiber.leave_for(running->caller);
    end_thread();
  }
}

}  // namespace

void run(const Shape& shape, const std::function<void()>& body) {
  static auto& pool = *new std::vector<std::unique_ptr<Thread>>;  // stacks are used again
  Block block = {};
  block.shape = shape;
  block.body = &body;
  block.living = shape.threads;
  for (unsigned i = 0; i < shape.threads; i++) {
    if (pool.empty()) pool.push_back(std::make_unique<Thread>());
    block.threads.push_back(std::move(pool.back()));
    pool.pop_back();
    block.threads.back()->runs = true;
    block.threads.back()->exchanges = 0;
  }
  for (unsigned i = 0; i < shape.threads; i += shape.warp) {
    block.warps.emplace_back(shape.warp * kLargestExchange);
  }
  block.current = shape.backwards ? shape.threads - 1 : 0;

  const struct Restore {
    Block* outer;  // whose thread runs this one
    ~Restore() { running = outer; }
  } restore{std::exchange(running, &block)};
  block.caller.leave_for(me().fiber);
  if (block.failure) std::rethrow_exception(block.failure);
  if (block.living > 0) {
    throw std::runtime_error("block " + std::to_string(shape.number) +
                             ": threads wait for each other in different places");
  }
  for (auto& thread : block.threads) pool.push_back(std::move(thread));
}

unsigned block_number() {
  return running->shape.number;
}
unsigned thread_number() {
  return running->current;
}

void barrier() {
  meet(running->everyone, running->living);
}
void barrier(int number, unsigned threads) {
  meet(running->barriers[number], threads);
}
void pass(int number, unsigned threads) {
  Meeting& meeting = running->barriers[number];
  if (++meeting.arrived == threads) part(meeting);
}

void sleep(const void* place) {
  me().runs = false;
  running->sleepers[place].waiting.push_back(&me());
  go_on_elsewhere();
}
void wake(const void* place) {
  part(running->sleepers[place]);
}

const char* exchange(const void* mine, std::size_t bytes) {
  Warp& warp = running->warps[running->current / running->shape.warp];
  if (bytes > kLargestExchange) fail("an exchange between threads of a warp is too large");
  if (warp.meeting.arrived == 0) warp.bytes = bytes;
  if (warp.bytes != bytes) fail("threads of a warp meet in different operations");
  char* const board = warp.boards[me().exchanges++ % 2].get();
  std::memcpy(board + running->current % running->shape.warp * bytes, mine, bytes);
  meet(warp.meeting, running->shape.warp);
  return board;
}

void fail(const char* rule) {
  running->failure = std::make_exception_ptr(
      std::runtime_error("block " + std::to_string(running->shape.number) + ", thread " +
                         std::to_string(running->current) + ": " + rule));
  me().fiber.leave_for(running->caller);
  std::terminate();  // nobody comes back here
}

}  // namespace host_block
