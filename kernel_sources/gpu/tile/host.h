// The host in place of a GPU: what amd.h defines, as plain C++, so that the algorithm runs under
// sanitizers. Lanes run one after another, each up to where it needs the others: whoever runs the
// text supplies the functions in namespace host (tests/gpu/host_lanes.h).
#pragma once

#include <cmath>
#include <cstring>

#define HF_DEVICE inline
#define HF_MEMBER inline
#define HF_LAMBDA
#define HF_UNROLL
#define HF_NO_UNROLL
#define HF_KERNEL extern "C"
#define HF_KERNEL_OF(threads, waves_per_simd) extern "C"
#define HF_VECTOR(type, n) hipflash::Vector<type, n>
#define HF_TABLE static constexpr
#define HF_DIRECT_LOADS 1  // see amd.h
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

using u32 = unsigned;
using u16 = unsigned short;
using u64 = unsigned long long;

template <class T, int N>
struct alignas(N % 2 ? sizeof(T) : sizeof(T) * N) Vector {
  T element[N];
  T& operator[](int i) { return element[i]; }
  const T& operator[](int i) const { return element[i]; }
};
using u32x2 = Vector<u32, 2>;
using u32x3 = Vector<u32, 3>;
using u32x4 = Vector<u32, 4>;

constexpr int kWave = 64;
constexpr float kInfinity = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

// ---- bits ---------------------------------------------------------------------------------------
inline u32 bits(float x) {
  u32 y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline float from_bits(u32 x) {
  float y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline u32 low_halves(u32 a, u32 b) {
  return (a & 0xffffu) | b << 16;
}
inline u32 high_halves(u32 a, u32 b) {
  return a >> 16 | (b & 0xffff0000u);
}

inline float f16_to_float(u16 x) {
  const int exponent = x >> 10 & 31, fraction = x & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                          : exponent == 31
                              ? (fraction ? std::nanf("") : kInfinity)
                              : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return x & 0x8000 ? -magnitude : magnitude;
}
inline float bf16_to_float(u16 x) {
  return from_bits(static_cast<u32>(x) << 16);
}

inline u32 float_to_f16(float x, bool nearest) {
  const u32 sign = bits(x) >> 16 & 0x8000u;
  const float a = std::fabs(x);
  if (a != a) return 0x7e00u;
  if (a == kInfinity) return sign | 0x7c00u;
  const int exponent = a < 6.103515625e-5f ? -14 : std::ilogb(a);  // of the last normal number
  const float scaled = std::ldexp(a, 10 - exponent);
  const u32 units = static_cast<u32>(nearest ? std::nearbyint(scaled) : std::trunc(scaled));
  // Units carry into the exponent by themselves; the smallest normal exponent is encoded as 1.
  const u32 code = units + (static_cast<u32>(exponent + 14) << 10);
  return sign | (code < 0x7c00u ? code : nearest ? 0x7c00u : 0x7bffu);
}
inline u32 pack_f16_toward_zero(float a, float b) {
  return float_to_f16(a, false) | float_to_f16(b, false) << 16;
}
inline u32 pack_f16_nearest(float a, float b) {
  return float_to_f16(a, true) | float_to_f16(b, true) << 16;
}
inline u32 pack_bf16_toward_zero(float a, float b) {
  return high_halves(bits(a), bits(b));
}
inline u32 round_to_bf16(float a) {
  const u32 x = bits(a);
  return a == a ? x + 0x7fffu + (x >> 16 & 1) : 0x7fffffffu;
}
inline u32 pack_bf16_nearest(float a, float b) {
  return high_halves(round_to_bf16(a), round_to_bf16(b));
}

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
