// The host in place of a GPU: what hip.h defines, as plain C++, so that the algorithm runs under
// sanitizers. Lanes run one after another, each up to where it needs the others: whoever runs the
// text supplies the functions in namespace host (tests/gpu/host_lanes.h).
#pragma once

#include "gpu/tile/host_bits.h"

// The generation of the GPUs in whose place the host is.
#if !defined(HF_HOST_GFX)
#define HF_HOST_GFX 9
#endif

#define HF_DEVICE inline
#define HF_MEMBER inline
#define HF_LAMBDA
#define HF_UNROLL
#define HF_NO_UNROLL
#define HF_KERNEL extern "C"
#define HF_KERNEL_OF(threads, waves_per_simd) extern "C"
#define HF_THREADS(n)
#define HF_VECTOR(type, n) hipflash::Vector<type, n>
#define HF_TABLE static constexpr
#define HF_DIRECT_LOADS 1  // see hip.h
#define HF_SHARED(name, bytes) char* const name = hipflash::host::shared_memory(bytes)

namespace hipflash {

namespace host {
int thread_id();
int block_id();
// The block's memory, the same for all of its threads.
char* shared_memory(int bytes);
// Returns when all threads of the block have called it.
void barrier();
// Returns when all lanes of the wave have called it: what each brought, `bytes` apart, in the order
// of the lanes. Valid until the lane calls it again.
const char* exchange(const void* mine, int bytes);
}  // namespace host

using u64 = unsigned long long;

// No load or store needs more than 16 bytes' alignment.
template <class T, int N>
struct alignas(N % 2   ? sizeof(T)
               : N < 4 ? sizeof(T) * N
                       : 16) Vector {
  T element[N];
  T& operator[](int i) { return element[i]; }
  const T& operator[](int i) const { return element[i]; }
};
using u32x2 = Vector<u32, 2>;
using u32x3 = Vector<u32, 3>;
using u32x4 = Vector<u32, 4>;

constexpr int kWave = HF_HOST_GFX < 10 ? 64 : 32;
constexpr float kInfinity = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

// ---- lanes --------------------------------------------------------------------------------------
inline int thread_id() {
  return host::thread_id();
}
inline int lane_id() {
  return host::thread_id() % kWave;
}
inline int wave_id() {
  return host::thread_id() / kWave;
}
inline int block_id() {
  return host::block_id();
}
inline int uniform(int x) {
  return x;
}

inline float lane_xor(float x, int mask) {
  const char* all = host::exchange(&x, sizeof(x));
  float y;
  std::memcpy(&y, all + (lane_id() ^ mask) * sizeof(x), sizeof(x));
  return y;
}
inline u64 lane_read(u64 x, int from) {
  const char* all = host::exchange(&x, sizeof(x));
  u64 y;
  std::memcpy(&y, all + from * sizeof(x), sizeof(x));
  return y;
}
inline bool any_lane(bool condition) {
  const char* all = host::exchange(&condition, 1);
  bool any = false;
  for (int i = 0; i < kWave; i++) any = any || all[i] != 0;
  return any;
}

// ---- the block ----------------------------------------------------------------------------------
inline void barrier() {
  host::barrier();
}
inline void fence() {}
template <int Level>
inline void priority() {}

// ---- raw buffers --------------------------------------------------------------------------------
struct Buffer {
  char* base;
  u32 bytes;
};
inline Buffer make_buffer(const void* base, int bytes) {
  return {static_cast<char*>(const_cast<void*>(base)), static_cast<u32>(bytes)};
}
constexpr int kNowhere = 0x7ffffff0;

// Whole words count, so the last one may reach up to two bytes past the data, as on a GPU.
template <int N>
inline Vector<u32, N> load_words(Buffer buffer, int offset) {
  Vector<u32, N> words = {};
  for (int i = 0; i < N; i++) {
    const u32 at = static_cast<u32>(offset) + 4 * static_cast<u32>(i);
    if (at < buffer.bytes && at + 4 <= buffer.bytes) std::memcpy(&words[i], buffer.base + at, 4);
  }
  return words;
}
inline u32 load1(Buffer buffer, int offset) {
  return load_words<1>(buffer, offset)[0];
}
inline u32x2 load2(Buffer buffer, int offset) {
  return load_words<2>(buffer, offset);
}
inline u32x3 load3(Buffer buffer, int offset) {
  return load_words<3>(buffer, offset);
}
inline u32x4 load4(Buffer buffer, int offset) {
  return load_words<4>(buffer, offset);
}
inline void store4(Buffer buffer, int offset, u32x4 x) {
  for (int i = 0; i < 4; i++) {
    const u32 at = static_cast<u32>(offset) + 4 * static_cast<u32>(i);
    if (at < buffer.bytes && at + 4 <= buffer.bytes) std::memcpy(buffer.base + at, &x[i], 4);
  }
}
inline void store1(Buffer buffer, int offset, u32 x) {
  const u32 at = static_cast<u32>(offset);
  if (at < buffer.bytes && at + 4 <= buffer.bytes) std::memcpy(buffer.base + at, &x, 4);
}

// ---- straight to shared memory ------------------------------------------------------------------
using SharedPlace = char*;

inline SharedPlace shared_place(char* p) {
  return p;
}
inline void load4_to_shared(Buffer buffer, int offset, SharedPlace to) {
  const u32x4 words = load4(buffer, offset);
  std::memcpy(to + lane_id() * 16, &words, 16);
}
inline void wait_for_loads() {}

inline u32x2 read_transposed(const char* p) {
  u32x2 mine;
  std::memcpy(&mine, p, sizeof(mine));
  const char* const all = host::exchange(&mine, sizeof(mine));
  const int first = lane_id() / 16 * 16, column = lane_id() % 16;
  u16 elements[4];
  for (int row = 0; row < 4; row++) {
    std::memcpy(&elements[row], all + (first + 4 * row + column / 4) * 8 + column % 4 * 2, 2);
  }
  u32x2 result;
  std::memcpy(&result, elements, sizeof(result));
  return result;
}

// ---- global memory by address -------------------------------------------------------------------
using Address = u64;

inline Address address_of(const void* p) {
  return reinterpret_cast<Address>(p);
}
inline const char* pointer_to(Address at) {
  return reinterpret_cast<const char*>(at);
}
template <class T>
inline T load_at(Address at) {
  T x;
  std::memcpy(&x, reinterpret_cast<const void*>(at), sizeof(T));
  return x;
}
template <class T>
inline void store_at(Address at, T x) {
  std::memcpy(reinterpret_cast<void*>(at), &x, sizeof(T));
}

// ---- arithmetic ---------------------------------------------------------------------------------
inline float hf_exp2(float x) {
  return std::exp2(x);
}
inline float hf_log2(float x) {
  return std::log2(x);
}
inline float hf_abs(float x) {
  return std::fabs(x);
}
inline float hf_fma(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float hf_max(float a, float b) {
  return std::fmax(a, b);
}
inline float hf_tanh(float x) {
  return std::tanh(x);
}

}  // namespace hipflash
