// The host in place of Hopper: what ptx_sm90.h defines, as plain C++. What runs on while its thread
// goes on, products and copies, is as late here as it may be. Whoever runs it supplies the
// functions in namespace host (tests/gpu/host_device/async_engines.h).
#pragma once

namespace hipflash {

namespace host {
// A barrier that counts is eight bytes of the block's memory. Its phase ends when `arrivals`
// threads have arrived and as many bytes as they announced.
void create_mbarrier(unsigned char* barrier, int arrivals);
void arrive_at_mbarrier(unsigned char* barrier, int announced_bytes);
// Returns when the last phase of this parity has ended. (The one before the first is odd.)
void wait_mbarrier(unsigned char* barrier, int parity);
// Arrives at barrier() without waiting there.
void pass_barrier(int number, int threads);
// Copies a box of what `map` describes to `address` of shared memory, which is `to`; arrives at
// `done`, not before somebody waits there.
void copy_box(unsigned char* to, unsigned address, const void* map, const int (&place)[4],
              unsigned char* done);
// Calls `work` with a copy of what `data` points to, not before finish_groups() says that the group
// that end_group() put it into is done: all but the last `pending` groups of this thread.
void do_later(void (*work)(const void* data), const void* data, int bytes);
void end_group();
void finish_groups(int pending);
}  // namespace host

// ---- barriers in shared memory

struct Barrier {
  unsigned address;

  unsigned char* place() const { return shared_bytes(address, 8); }
  void create(int arrivals) const { host::create_mbarrier(place(), arrivals); }
  void arrive() const { host::arrive_at_mbarrier(place(), 0); }
  void expect(int bytes) const { host::arrive_at_mbarrier(place(), bytes); }
  void wait(int parity) const { host::wait_mbarrier(place(), parity); }
};
inline void publish_barriers() {}
inline void publish_writes() {}

inline void wait_turn(int group) {
  host::barrier(group + 1, 256);
}
inline void give_turn(int group) {
  host::pass_barrier(group + 1, 256);
}

// ---- copies

inline void copy_box(unsigned to, const TensorMap& map, int column, int row, int head, int batch,
                     Barrier done) {
  host::copy_box(shared_bytes(to, 1024), to, &map, {column, row, head, batch}, done.place());
}
inline void prefetch_map(const TensorMap&) {}

// ---- registers

template <int kCount>
inline void take_registers() {}
template <int kCount>
inline void give_registers() {}

// ---- products

inline void products_start() {}
inline void products_issued() {
  host::end_group();
}
template <int kPending>
inline void wait_products() {
  host::finish_groups(kPending);
  __syncwarp();
}
template <int N>
inline void pin(float (&)[N]) {}

// The element in a row of an operand at this column. Bits 0 to 13 of a descriptor are the address,
// 16 to 29 the distance of slabs, 32 to 45 that of eight rows, all in units of 16 bytes, which
// change places in a row by bits of the address.
inline float operand_element(unsigned long long operand, int row, int column) {
  const auto field = [&](int from) { return (unsigned)(operand >> from & 0x3fff) << 4; };
  const unsigned plain =
      field(0) + column / 64 * field(16) + row / 8 * field(32) + row % 8 * 128 + column % 64 * 2;
  const u16 x = load_shared<u16>(plain ^ (plain >> 3 & 0x70));
  return kBf16 ? bf16_to_float(x) : f16_to_float(x);
}

// c[4 j + i] holds row lane / 4 + 8 (i / 2) of the warp's sixteen, column 8 j + 2 (lane % 4) + i
// % 2.
inline int row_of_result(int i) {
  return lane_of_warp() / 4 + 8 * (i / 2 % 2);
}
inline int column_of_result(int i) {
  return i / 4 * 8 + 2 * (lane_of_warp() % 4) + i % 2;
}

template <int kColumns>
struct Wgmma {
  struct Scores {
    float* c;
    unsigned long long a, b;
    int add;
  };
  static void scores(float (&c)[kColumns / 2], unsigned long long a, unsigned long long b,
                     int add) {
    const auto multiply = [](const void* data) {
      const Scores& x = *(const Scores*)data;
      const int first_row = threadIdx.x / 32 % 4 * 16;
      float rows[2][16];
      for (int half = 0; half < 2; half++) {
        for (int k = 0; k < 16; k++) {
          rows[half][k] = operand_element(x.a, first_row + row_of_result(2 * half), k);
        }
      }
      for (int i = 0; i < kColumns / 2; i++) {
        float sum = x.add ? x.c[i] : 0.0f;
        for (int k = 0; k < 16; k++) {
          sum += rows[i / 2 % 2][k] * operand_element(x.b, column_of_result(i), k);
        }
        x.c[i] = sum;
      }
    };
    const Scores mine = {c, a, b, add};
    host::do_later(multiply, &mine, sizeof(mine));
  }

  struct Outputs {
    float* c;
    const unsigned* a;  // a fragment of A as mma_of() has it
    unsigned long long b;
  };
  static void outputs(float (&c)[kColumns / 2], const unsigned (&a)[4], unsigned long long b) {
    const auto multiply = [](const void* data) {
      const Outputs& x = *(const Outputs*)data;
      const char* const all = host::exchange(x.a, 4 * sizeof(unsigned));
      float rows[2][16];
      for (int lane = 0; lane < 4; lane++) {
        unsigned words[4];
        std::memcpy(words, all + (lane_of_warp() / 4 * 4 + lane) * sizeof(words), sizeof(words));
        for (int i = 0; i < 4; i++) {
          widen_pair<kBf16>(&rows[i % 2][2 * lane + 8 * (i / 2)], words[i]);
        }
      }
      for (int i = 0; i < kColumns / 2; i++) {
        for (int k = 0; k < 16; k++) {
          x.c[i] += rows[i / 2 % 2][k] * operand_element(x.b, k, column_of_result(i));
        }
      }
    };
    const Outputs mine = {c, a, b};
    host::do_later(multiply, &mine, sizeof(mine));
  }
};

}  // namespace hipflash
