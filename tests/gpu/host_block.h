// Runs the threads of a block of a GPU on the host: each on a stack of its own, one after another,
// each up to where it needs others. Those of a warp go on before others, so that a warp is as far
// ahead of the others, or behind them, as barriers let it be, and a barrier that is missing shows
// wherever it is. host_lanes.h is what kernels for AMD cards see of it, host_device/cuda_threads.h
// those for NVIDIA's.
#pragma once

#include <cstddef>
#include <functional>

namespace host_block {

constexpr std::size_t kLargestExchange = 128;  // bytes of one thread

struct Shape {
  unsigned number;         // of the block in its grid
  unsigned threads, warp;  // of the block; of a warp
  bool backwards;          // the order of the threads between two meetings
};

// Runs `thread` once for each of the block's threads. Throws std::runtime_error if they disagree
// about where to meet, and what a thread throws; threads that did not end then never run again. A
// thread may run a block itself.
void run(const Shape& shape, const std::function<void()>& thread);

// For the thread that runs.
unsigned block_number();
unsigned thread_number();
// Returns when all threads that have not ended have called it.
void barrier();
// Returns when `threads` threads that say the same number have called it.
void barrier(int number, unsigned threads);
// Counts as one of them and goes on.
void pass(int number, unsigned threads);
// Returns when another thread has called wake() with the same place.
void sleep(const void* place);
void wake(const void* place);
// Returns when all threads of the warp have called it: what each brought, `bytes` apart, in their
// order. Valid until the thread calls it again.
const char* exchange(const void* mine, std::size_t bytes);
// Ends the block: run() throws std::runtime_error.
[[noreturn]] void fail(const char* rule);

}  // namespace host_block
