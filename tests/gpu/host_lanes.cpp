#include "gpu/host_lanes.h"

#include <utility>
#include <vector>

#include "gpu/host_block.h"

namespace host_lanes {
namespace {

struct Block {
  unsigned threads;
  std::vector<char> shared;
};
Block* running = nullptr;

}  // namespace

void run_block(int index, int threads, Order order, const std::function<void()>& lane, int wave) {
  Block block = {static_cast<unsigned>(threads), {}};
  const struct Restore {
    Block* outer;
    ~Restore() { running = outer; }
  } restore{std::exchange(running, &block)};
  host_block::run({static_cast<unsigned>(index), block.threads, static_cast<unsigned>(wave),
                   order == Order::backward},
                  lane);
}

int thread_id() {
  return static_cast<int>(host_block::thread_number());
}
int block_id() {
  return static_cast<int>(host_block::block_number());
}

char* shared_memory(int bytes) {
  if (running->shared.empty()) running->shared.assign(static_cast<std::size_t>(bytes), '\xff');
  return running->shared.data();
}

// All lanes of the block take part in every barrier, so none may have ended.
void barrier() {
  host_block::barrier(1, running->threads);
}

const char* exchange(const void* mine, int bytes) {
  return host_block::exchange(mine, static_cast<std::size_t>(bytes));
}

}  // namespace host_lanes
