// The host in place of an NVIDIA GPU: the words of CUDA C++ that the families use, and what ptx.h
// defines, as plain C++, so that their text runs under sanitizers. Whoever runs it supplies the
// functions in namespace host (tests/gpu/host_device/cuda_threads.h).
#pragma once

#include <math.h>

#include "gpu/tile/host_bits.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static  // blocks run one after another
#define threadIdx hipflash::host::thread_index()
#define blockIdx hipflash::host::block_index()
#define gridDim hipflash::host::grid_size()
#define HF_SHARED_BYTES(name) unsigned char* const name = hipflash::host::shared_memory()

namespace hipflash {

namespace host {
struct Index {
  unsigned x, y, z;
};
Index thread_index();
Index block_index();
Index grid_size();
// The block's dynamic memory: as much as the launch asks for.
unsigned char* shared_memory();
// Returns when `threads` threads that say the same number have called it; 0: all of the block.
void barrier(int number, int threads);
// Returns when all threads of the block have called it: if one of them said true.
bool barrier_or(bool mine);
// Returns when all lanes of the warp have called it: what each brought, `bytes` apart, in the order
// of the lanes. Valid until the lane calls it again.
const char* exchange(const void* mine, int bytes);
// Copies `bytes` bytes and zeros up to `size`, not before wait_copies() says that the group that
// end_copies() put them into has arrived: all but the last `pending` groups of this thread.
void copy_later(unsigned char* to, const char* from, int bytes, int size);
void end_copies();
void wait_copies(int pending);
void wait_for_launch_before();
[[noreturn]] void fail(const char* rule);
}  // namespace host

// ---- CUDA C++ -----------------------------------------------------------------------------------

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

inline int min(int x, int y) {
  return x < y ? x : y;
}
inline int max(int x, int y) {
  return x > y ? x : y;
}
inline unsigned min(unsigned x, unsigned y) {
  return x < y ? x : y;
}
inline unsigned max(unsigned x, unsigned y) {
  return x > y ? x : y;
}
inline long long min(long long x, long long y) {
  return x < y ? x : y;
}
inline long long max(long long x, long long y) {
  return x > y ? x : y;
}

inline unsigned __float_as_uint(float x) {
  return bits(x);
}
inline int __float_as_int(float x) {
  return (int)bits(x);
}
inline float __uint_as_float(unsigned x) {
  return from_bits(x);
}
inline float __int_as_float(int x) {
  return from_bits((unsigned)x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

// Threads run one at a time.
inline int atomicAdd(int* x, int more) {
  const int before = *x;
  *x += more;
  return before;
}

inline void __syncthreads() {
  host::barrier(0, 0);
}
inline int __syncthreads_or(int mine) {
  return host::barrier_or(mine != 0);
}
inline void __syncwarp() {
  const char all = 0;
  host::exchange(&all, 1);
}

inline int lane_of_warp() {
  return (int)(threadIdx.x % 32);
}
template <class T>
inline T __shfl_sync(unsigned, T x, int from) {
  const char* const all = host::exchange(&x, sizeof(x));
  std::memcpy(&x, all + from % 32 * sizeof(x), sizeof(x));
  return x;
}
template <class T>
inline T __shfl_xor_sync(unsigned, T x, int mask) {
  return __shfl_sync(~0u, x, lane_of_warp() ^ mask);
}
inline unsigned __reduce_or_sync(unsigned, unsigned x) {
  const char* const all = host::exchange(&x, sizeof(x));
  unsigned any = 0;
  for (int lane = 0; lane < 32; lane++) {
    std::memcpy(&x, all + lane * sizeof(x), sizeof(x));
    any |= x;
  }
  return any;
}
inline int __any_sync(unsigned, int condition) {
  return __reduce_or_sync(~0u, condition != 0) != 0;
}

// ---- arithmetic of one lane ---------------------------------------------------------------------

inline int opaque(int x) {
  return x;
}
inline int fresh_thread() {
  return (int)threadIdx.x;
}
inline int fresh_block() {
  return (int)blockIdx.x;
}
inline float exp2_fast(float x) {
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}
inline float log2_fast(float x) {
  return log2f(x);
}
inline float reciprocal(float x) {
  return x == 0.0f ? copysignf(__builtin_inff(), x) : 1.0f / x;
}
template <bool kIsBf16>
inline unsigned pack_as(float first, float second) {
  return kIsBf16 ? pack_bf16_nearest(first, second) : pack_f16_nearest(first, second);
}
inline float half_to_float(unsigned short x) {
  return f16_to_float(x);
}

// ---- shared memory ------------------------------------------------------------------------------

// Where a block's memory begins: no more aligned than it says.
constexpr unsigned kSharedBase = 128 * 9;

inline unsigned shared_address(const void* pointer) {
  return kSharedBase + (unsigned)((const unsigned char*)pointer - host::shared_memory());
}
inline unsigned char* shared_bytes(unsigned address, unsigned alignment) {
  if (address % alignment != 0) host::fail("an address in shared memory is not aligned");
  return host::shared_memory() + ((long long)address - kSharedBase);
}
template <class T>
inline T load_shared(unsigned from) {
  T x;
  std::memcpy(&x, shared_bytes(from, sizeof(x)), sizeof(x));
  return x;
}
template <class T>
inline void store_shared(unsigned to, T x) {
  std::memcpy(shared_bytes(to, sizeof(x)), &x, sizeof(x));
}
struct Words2 {
  int x, y;
};
struct Words4 {
  int x, y, z, w;
};
struct Longs2 {
  long long x, y;
};

inline void store_element(unsigned to, unsigned short x) {
  store_shared(to, x);
}
inline void store_word(unsigned to, int x) {
  store_shared(to, x);
}
inline void store_word(unsigned to, float x) {
  store_shared(to, x);
}
inline void store_words(unsigned to, int x, int y) {
  store_shared(to, Words2{x, y});
}
inline void store_words(unsigned to, int x, int y, int z, int w) {
  store_shared(to, Words4{x, y, z, w});
}
inline void store_words(unsigned to, float x, float y, float z, float w) {
  store_shared(to, float4{x, y, z, w});
}
inline void store_longs(unsigned to, long long x, long long y) {
  store_shared(to, Longs2{x, y});
}
inline void load_word(int& x, unsigned from) {
  x = load_shared<int>(from);
}
inline void load_words(int& x, int& y, unsigned from) {
  const Words2 words = load_shared<Words2>(from);
  x = words.x;
  y = words.y;
}
inline void load_words(int& x, int& y, int& z, int& w, unsigned from) {
  const Words4 words = load_shared<Words4>(from);
  x = words.x;
  y = words.y;
  z = words.z;
  w = words.w;
}
inline long long load_long(unsigned from) {
  return load_shared<long long>(from);
}
inline float load_float(unsigned from) {
  return load_shared<float>(from);
}
inline float2 load_pair(unsigned from) {
  return load_shared<float2>(from);
}
inline float4 load_piece(unsigned from) {
  return load_shared<float4>(from);
}

// ---- asynchronous copies into shared memory -----------------------------------------------------

inline void copy_to_shared(unsigned to, const char* from, int bytes, int size) {
  if ((unsigned long long)from % size != 0) host::fail("the source of a copy is not aligned");
  host::copy_later(shared_bytes(to, size), from, bytes, size);
}
template <bool kOnce = false>
inline void copy_piece(unsigned to, const char* from, int bytes) {
  copy_to_shared(to, from, bytes, 16);
}
inline void copy_word(unsigned to, const char* from, bool exists) {
  copy_to_shared(to, from, exists ? 4 : 0, 4);
}
inline void copies_issued() {
  host::end_copies();
}
template <int kPending>
inline void wait_copies() {
  host::wait_copies(kPending);
}

inline void load_global(unsigned (&x)[4], const void* from) {
  if ((unsigned long long)from % 16 != 0) host::fail("a piece of global memory is not aligned");
  std::memcpy(x, from, sizeof(x));
}

// ---- threads that meet --------------------------------------------------------------------------

template <int kThreads>
inline void barrier_of(int number) {
  host::barrier(number, kThreads);
}
inline void launch_next() {}
inline void wait_for_launch_before() {
  host::wait_for_launch_before();
}

// ---- matrices of 16-bit elements ----------------------------------------------------------------

template <bool kTransposed>
inline void read_block(unsigned (&x)[4], unsigned from) {
  u16 row[8];  // the one that this lane addresses
  std::memcpy(row, shared_bytes(from, sizeof(row)), sizeof(row));
  const char* const all = host::exchange(row, sizeof(row));
  const int outer = lane_of_warp() / 4, inner = lane_of_warp() % 4 * 2;
  for (int matrix = 0; matrix < 4; matrix++) {
    u16 pair[2];
    for (int e = 0; e < 2; e++) {
      const int r = kTransposed ? inner + e : outer, c = kTransposed ? outer : inner + e;
      std::memcpy(&pair[e], all + (8 * matrix + r) * sizeof(row) + c * 2, 2);
    }
    std::memcpy(&x[matrix], pair, sizeof(pair));
  }
}

template <bool kIsBf16>
inline void widen_pair(float* to, unsigned word) {
  for (int e = 0; e < 2; e++) {
    const u16 x = (u16)(word >> (16 * e));
    to[e] = kIsBf16 ? bf16_to_float(x) : f16_to_float(x);
  }
}

// Register i of a fragment of A holds row lane / 4 + 8 (i % 2), columns 2 (lane % 4) + 8 (i / 2)
// and the next; register i of B row 2 (lane % 4) + 8 i and the next, column lane / 4; c[i] row lane
// / 4 + 8 (i / 2), column 2 (lane % 4) + i % 2.
template <bool kIsBf16>
inline void mma_of(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  struct Operands {
    unsigned a[4], b[2];
  };
  const Operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const char* const all = host::exchange(&mine, sizeof(mine));
  const int outer = lane_of_warp() / 4, inner = lane_of_warp() % 4;
  float rows[2][16], columns[2][16];
  for (int k = 0; k < 4; k++) {
    Operands of_row;
    std::memcpy(&of_row, all + (4 * outer + k) * sizeof(of_row), sizeof(of_row));
    for (int i = 0; i < 4; i++) widen_pair<kIsBf16>(&rows[i % 2][2 * k + 8 * (i / 2)], of_row.a[i]);
    for (int column = 0; column < 2; column++) {
      Operands of_column;
      std::memcpy(&of_column, all + (4 * (2 * inner + column) + k) * sizeof(of_column),
                  sizeof(of_column));
      for (int i = 0; i < 2; i++)
        widen_pair<kIsBf16>(&columns[column][2 * k + 8 * i], of_column.b[i]);
    }
  }
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 16; k++) c[i] += rows[i / 2][k] * columns[i % 2][k];
  }
}
template <bool kIsBf16>
inline void mma_first_of(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  for (int i = 0; i < 4; i++) c[i] = 0.0f;
  mma_of<kIsBf16>(c, a, b0, b1);
}

}  // namespace hipflash
