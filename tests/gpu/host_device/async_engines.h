// What Hopper's kernels leave to engines beside their threads, on the host: barriers that count,
// boxes that are copied, products that run on. What gpu/tile/nv/host_sm90.h asks for is answered
// here. A copy arrives when somebody waits for it, and until then nobody may touch its place; a
// product is made when its thread waits for it, from what its operands hold then.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

// Kernels are linked with the library that has these.
#pragma GCC visibility push(default)
namespace hipflash {
namespace host {

void create_mbarrier(unsigned char* barrier, int arrivals);
void arrive_at_mbarrier(unsigned char* barrier, int announced_bytes);
void wait_mbarrier(unsigned char* barrier, int parity);
void pass_barrier(int number, int threads);
void copy_box(unsigned char* to, unsigned address, const void* map, const int (&place)[4],
              unsigned char* done);
void do_later(void (*work)(const void* data), const void* data, int bytes);
void end_group();
void finish_groups(int pending);

}  // namespace host
}  // namespace hipflash
#pragma GCC visibility pop

namespace host_device {

// What cuTensorMapEncodeTiled makes of a tensor of 16-bit elements with rows of 128 swizzled bytes.
struct BoxMap {
  const unsigned char* base;
  std::uint64_t strides[3];  // bytes
  std::uint32_t sizes[4];    // columns, rows, heads, batch
  std::uint32_t rows;        // of a box
};
constexpr int kBoxColumns = 64;

// What is under way in one block, which runs while this lives.
struct Engines {
  struct Copy {
    unsigned char* to;
    unsigned address;  // of `to`, as the swizzle has it
    std::vector<unsigned char> data;
  };
  struct Work {
    void (*work)(const void* data);
    std::array<unsigned char, 48> data;
  };
  struct Thread {
    std::deque<std::vector<Work>> groups;
    std::vector<Work> open_group;
  };

  explicit Engines(unsigned threads);
  Engines(const Engines&) = delete;
  ~Engines();
  // What is wrong if the block, or the thread that runs, has ended; null if nothing is.
  const char* what_block_left() const;
  const char* what_thread_left() const;

  std::map<const unsigned char*, std::vector<Copy>> copies;  // by the barrier that they arrive at
  std::vector<Thread> threads;
  Engines* outer;  // of the block whose thread runs this one
};

}  // namespace host_device
