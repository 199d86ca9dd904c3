// Runs a block of a kernel for AMD cards on the host (host_block.h). What gpu/tile/amd/host.h asks
// for is answered here.
#pragma once

#include <functional>

namespace host_lanes {

enum class Order { forward, backward };  // of the lanes between two meetings

// Runs `lane` once for each of `threads` threads of a block, in waves of `wave` lanes. Throws
// std::runtime_error if lanes disagree about where to meet.
void run_block(int block, int threads, Order order, const std::function<void()>& lane,
               int wave = 64);

// For the lane that runs.
int thread_id();
int block_id();
char* shared_memory(int bytes);
void barrier();
const char* exchange(const void* mine, int bytes);

}  // namespace host_lanes
