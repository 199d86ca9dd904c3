// Runs the lanes of a block on the host: each on a stack of its own, one after another, each up to
// where it needs the others. What gpu/tile/host.h asks for is answered here.
#pragma once

#include <functional>

namespace host_lanes {

enum class Order { forward, backward };  // of the lanes between two meetings

// Runs `lane` once for each of `threads` threads of a block (waves of 64). Throws
// std::runtime_error if lanes disagree about where to meet.
void run_block(int block, int threads, Order order, const std::function<void()>& lane);

// For the lane that runs.
int thread_id();
int block_id();
char* shared_memory(int bytes);
void barrier();
const char* exchange(const void* mine, int bytes);

}  // namespace host_lanes
