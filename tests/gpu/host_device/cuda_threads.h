// Runs the grid of a CUDA kernel on the host, blocks one after another (host_block.h). What
// gpu/tile/nv/host.h asks for is answered here, and what a kernel may not count on is made visible:
//
// - Between two meetings threads run forwards in one block, backwards in the next, so what lacks a
//   barrier is wrong in one of them.
// - The block's memory is a heap block of the bytes that the launch asked for.
// - A copy into it arrives when its thread waits for it. Until then nobody may touch the place.
// - A launch that may begin before the one ahead of it has ended does so: that one runs when it is
//   waited for.
#pragma once

#include <functional>

// Kernels are linked with the library that has these.
#pragma GCC visibility push(default)
namespace hipflash {
namespace host {

struct Index {
  unsigned x, y, z;
};
struct Grid {
  unsigned blocks, threads_x, threads_y, shared_bytes;
};

// Runs `thread` once for each thread of the grid. `before` is the launch ahead, if that was begun
// no earlier: it is run when threads wait for it, or at the end. Throws std::runtime_error if
// threads disagree about where to meet, or break another rule.
void run_grid(const Grid& grid, const std::function<void()>& thread,
              const std::function<void()>& before);

// For the thread that runs; see gpu/tile/nv/host.h.
Index thread_index();
Index block_index();
Index grid_size();
unsigned char* shared_memory();
void barrier(int number, int threads);
bool barrier_or(bool mine);
const char* exchange(const void* mine, int bytes);
void copy_later(unsigned char* to, const char* from, int bytes, int size);
void end_copies();
void wait_copies(int pending);
void wait_for_launch_before();
[[noreturn]] void fail(const char* rule);

}  // namespace host
}  // namespace hipflash
#pragma GCC visibility pop
