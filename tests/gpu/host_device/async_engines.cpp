#include "gpu/host_device/async_engines.h"

#include <sanitizer/asan_interface.h>

#include <cstring>
#include <utility>

#include "gpu/host_block.h"

namespace host_device {
namespace {

Engines* running = nullptr;

constexpr int kChunk = 16;  // bytes that the swizzle leaves together
constexpr int kRowBytes = 2 * kBoxColumns;

struct Mbarrier {
  unsigned phase : 1, arrivals : 15, pending : 16;
  int bytes;  // announced and not yet there
};
static_assert(sizeof(Mbarrier) == 8);

Mbarrier load(const unsigned char* barrier) {
  Mbarrier state;
  std::memcpy(&state, barrier, sizeof(state));
  return state;
}
void store(unsigned char* barrier, Mbarrier state) {
  if (state.pending == 0 && state.bytes == 0) {
    state.phase ^= 1;
    state.pending = state.arrivals;
    host_block::wake(barrier);
  }
  std::memcpy(barrier, &state, sizeof(state));
}

// The box at `place` of the tensor, rows after one another; outside there are zeros.
std::vector<unsigned char> box_of(const BoxMap& map, const int (&place)[4]) {
  std::vector<unsigned char> data(map.rows * kRowBytes);
  const auto inside = [&](int dimension, int at) {
    return at >= 0 && static_cast<unsigned>(at) < map.sizes[dimension];
  };
  if (!inside(2, place[2]) || !inside(3, place[3])) return data;
  for (int r = 0; r < static_cast<int>(map.rows); r++) {
    if (!inside(1, place[1] + r)) continue;
    const unsigned char* from = map.base;
    const int at[3] = {place[1] + r, place[2], place[3]};
    for (int i = 0; i < 3; i++) from += map.strides[i] * static_cast<unsigned>(at[i]);
    for (int c = 0; c < kBoxColumns; c++) {
      if (!inside(0, place[0] + c)) continue;
      std::memcpy(&data[static_cast<std::size_t>(r * kRowBytes + 2 * c)], from + 2 * (place[0] + c),
                  2);
    }
  }
  return data;
}

}  // namespace

Engines::Engines(unsigned count) : threads(count), outer(std::exchange(running, this)) {}
Engines::~Engines() {
  running = outer;
}

const char* Engines::what_block_left() const {
  for (const auto& [barrier, boxes] : copies) {
    if (!boxes.empty()) return "a block ended before its boxes arrived";
  }
  return nullptr;
}
const char* Engines::what_thread_left() const {
  const Thread& mine = threads[host_block::thread_number()];
  const bool idle = mine.groups.empty() && mine.open_group.empty();
  return idle ? nullptr : "a thread ended before its products were made";
}

namespace {

Engines::Thread& me() {
  return running->threads[host_block::thread_number()];
}

// True if something arrived.
bool deliver(unsigned char* barrier) {
  const std::vector<Engines::Copy> copies = std::exchange(running->copies[barrier], {});
  for (const Engines::Copy& copy : copies) {
    __asan_unpoison_memory_region(copy.to, copy.data.size());
    for (unsigned i = 0; i < copy.data.size(); i += kChunk) {
      const unsigned plain = copy.address + i, swizzled = plain ^ (plain >> 3 & 0x70);
      std::memcpy(copy.to + (swizzled - copy.address), &copy.data[i], kChunk);
    }
    Mbarrier state = load(barrier);
    state.bytes -= static_cast<int>(copy.data.size());
    store(barrier, state);
  }
  return !copies.empty();
}

}  // namespace
}  // namespace host_device

namespace hipflash::host {

using namespace host_device;

void create_mbarrier(unsigned char* barrier, int arrivals) {
  const unsigned count = static_cast<unsigned>(arrivals) & 0x7fff;
  const Mbarrier state = {0, count, count, 0};
  std::memcpy(barrier, &state, sizeof(state));
}

void arrive_at_mbarrier(unsigned char* barrier, int announced_bytes) {
  Mbarrier state = load(barrier);
  if (state.pending == 0) host_block::fail("more threads arrive at a barrier than it counts");
  state.pending--;
  state.bytes += announced_bytes;
  store(barrier, state);
}

void wait_mbarrier(unsigned char* barrier, int parity) {
  while (load(barrier).phase == static_cast<unsigned>(parity)) {
    if (!deliver(barrier)) host_block::sleep(barrier);
  }
}

void pass_barrier(int number, int threads) {
  host_block::pass(number, static_cast<unsigned>(threads));
}

void copy_box(unsigned char* to, unsigned address, const void* map, const int (&place)[4],
              unsigned char* done) {
  BoxMap tensor;
  std::memcpy(&tensor, map, sizeof(tensor));
  Engines::Copy copy = {to, address, box_of(tensor, place)};
  std::memset(to, 0xff, copy.data.size());
  __asan_poison_memory_region(to, copy.data.size());
  running->copies[done].push_back(std::move(copy));
  host_block::wake(done);
}

void do_later(void (*work)(const void* data), const void* data, int bytes) {
  Engines::Work later = {work, {}};
  std::memcpy(later.data.data(), data, static_cast<std::size_t>(bytes));
  me().open_group.push_back(later);
}
void end_group() {
  Engines::Thread& mine = me();
  mine.groups.push_back(std::exchange(mine.open_group, {}));
}
void finish_groups(int pending) {
  Engines::Thread& mine = me();
  while (mine.groups.size() > static_cast<std::size_t>(pending)) {
    for (const Engines::Work& later : mine.groups.front()) later.work(later.data.data());
    mine.groups.pop_front();
  }
}

}  // namespace hipflash::host

// CUresult, of what src/platform/cuda/tensor_map.cpp asks for and nothing else.
extern "C" __attribute__((visibility("default"))) int cuTensorMapEncodeTiled(
    void* map, int, unsigned rank, const void* base, const std::uint64_t* sizes,
    const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* element_strides,
    int interleave, int swizzle, int, int fill) {
  constexpr int kInvalidValue = 1, kSwizzle128 = 3;
  constexpr unsigned kLargestBox = 256;
  const bool known = rank == 4 && interleave == 0 && swizzle == kSwizzle128 && fill == 0 &&
                     box[0] == host_device::kBoxColumns && box[2] == 1 && box[3] == 1;
  if (!known || box[1] == 0 || box[1] > kLargestBox) return kInvalidValue;
  if (reinterpret_cast<std::uintptr_t>(base) % 16 != 0) return kInvalidValue;
  host_device::BoxMap made = {static_cast<const unsigned char*>(base), {}, {}, box[1]};
  for (int i = 0; i < 4; i++) {
    if (sizes[i] == 0 || sizes[i] >> 32 != 0 || element_strides[i] != 1) return kInvalidValue;
    made.sizes[i] = static_cast<std::uint32_t>(sizes[i]);
  }
  for (int i = 0; i < 3; i++) {
    if (strides[i] % 16 != 0 || strides[i] >> 40 != 0) return kInvalidValue;
    made.strides[i] = strides[i];
  }
  std::memcpy(map, &made, sizeof(made));
  return 0;
}
