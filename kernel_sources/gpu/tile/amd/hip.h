// What every AMD GPU has in common: qualifiers, vectors of registers, lanes, raw buffers, barriers.
//
// tile/amd/host.h defines the same names for the host. Instructions that only some architectures
// have are in the file of their matrix unit (cdna/mfma.h, rdna/wmma_gfx11.h, rdna/wmma_gfx12.h,
// dot.h).
#pragma once

#define HF_DEVICE static __device__ inline __attribute__((always_inline))
#define HF_MEMBER __device__ inline __attribute__((always_inline))
#define HF_UNROLL _Pragma("unroll")
#define HF_NO_UNROLL _Pragma("nounroll")
#define HF_VECTOR(type, n) type __attribute__((ext_vector_type(n)))
#define HF_KERNEL extern "C" __global__
// A kernel of exactly `threads` threads whose registers leave room for so many waves per SIMD.
#define HF_KERNEL_OF(threads, waves_per_simd)                                         \
  extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads), \
                                       amdgpu_waves_per_eu(waves_per_simd, waves_per_simd)))
// A kernel of at most n threads, after HF_KERNEL.
#define HF_THREADS(n) __launch_bounds__(n)
// After the parameters of a lambda.
#define HF_LAMBDA __attribute__((always_inline))
// Constant data of the code object: HF_TABLE Type name(...);
#define HF_TABLE static __device__ constexpr
// Whether loads go straight to shared memory in chunks of 16 bytes.
#if defined(__gfx950__)
#define HF_DIRECT_LOADS 1
#else
#define HF_DIRECT_LOADS 0
#endif
// Memory of the block; one per kernel.
#define HF_SHARED(name, bytes) __shared__ __attribute__((aligned(1024))) char name[bytes]

namespace hipflash {

using u32 = unsigned;
using u16 = unsigned short;
using u64 = unsigned long long;
using u32x2 = u32 __attribute__((ext_vector_type(2)));
using u32x3 = u32 __attribute__((ext_vector_type(3)));
using u32x4 = u32 __attribute__((ext_vector_type(4)));
using u32x8 = u32 __attribute__((ext_vector_type(8)));
using i32x4 = int __attribute__((ext_vector_type(4)));
using f32x4 = float __attribute__((ext_vector_type(4)));
using f32x8 = float __attribute__((ext_vector_type(8)));
using f32x16 = float __attribute__((ext_vector_type(16)));
using f16x2 = _Float16 __attribute__((ext_vector_type(2)));

#if defined(__GFX9__)
constexpr int kWave = 64;  // lanes
#else
constexpr int kWave = 32;
#endif

constexpr float kInfinity = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

// ---- bits ---------------------------------------------------------------------------------------
// Never bit_cast an element of a vector in place: clang reads element 0. Passing it by value is
// safe.
HF_DEVICE u32 bits(float x) {
  return __builtin_bit_cast(u32, x);
}
HF_DEVICE float from_bits(u32 x) {
  return __builtin_bit_cast(float, x);
}

// {bytes of a, bytes of b}: the low, or the high, 16 bits of both words side by side.
HF_DEVICE u32 low_halves(u32 a, u32 b) {
  return __builtin_amdgcn_perm(b, a, 0x05040100u);
}
HF_DEVICE u32 high_halves(u32 a, u32 b) {
  return __builtin_amdgcn_perm(b, a, 0x07060302u);
}

// Two floats as 16-bit elements in one word, the first in the low half.
HF_DEVICE u32 pack_f16_toward_zero(float a, float b) {
  return __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(a, b));
}
HF_DEVICE u32 pack_f16_nearest(float a, float b) {
  const f16x2 both = {static_cast<_Float16>(a), static_cast<_Float16>(b)};
  return __builtin_bit_cast(u32, both);
}
HF_DEVICE u32 pack_bf16_toward_zero(float a, float b) {
  return high_halves(bits(a), bits(b));
}
HF_DEVICE u32 round_to_bf16(float a) {  // in the high half; the low half is not cleared
  const u32 x = bits(a);
  return a == a ? x + 0x7fffu + ((x >> 16) & 1) : 0x7fffffffu;
}
HF_DEVICE u32 pack_bf16_nearest(float a, float b) {
  return high_halves(round_to_bf16(a), round_to_bf16(b));
}
HF_DEVICE float f16_to_float(u16 x) {
  return static_cast<float>(__builtin_bit_cast(_Float16, x));
}
HF_DEVICE float bf16_to_float(u16 x) {
  return from_bits(static_cast<u32>(x) << 16);
}

// ---- lanes --------------------------------------------------------------------------------------
HF_DEVICE int thread_id() {
  return static_cast<int>(threadIdx.x);
}
HF_DEVICE int lane_id() {
  return static_cast<int>(threadIdx.x) & (kWave - 1);
}
HF_DEVICE int block_id() {
  return static_cast<int>(blockIdx.x);
}

// A value that is the same in all lanes, moved to a scalar register: loops over it are scalar.
HF_DEVICE int uniform(int x) {
  return __builtin_amdgcn_readfirstlane(x);
}

HF_DEVICE int wave_id() {
  return uniform(static_cast<int>(threadIdx.x) / kWave);
}

// The value that lane (this lane ^ mask) holds.
HF_DEVICE float lane_xor(float x, int mask) {
  const int from = (lane_id() ^ mask) * 4;
  return from_bits(static_cast<u32>(__builtin_amdgcn_ds_bpermute(from, static_cast<int>(bits(x)))));
}

// The value of lane `from`, which must take part.
HF_DEVICE u64 lane_read(u64 x, int from) {
  const u32 low = static_cast<u32>(
      __builtin_amdgcn_ds_bpermute(from * 4, static_cast<int>(static_cast<u32>(x))));
  const u32 high = static_cast<u32>(
      __builtin_amdgcn_ds_bpermute(from * 4, static_cast<int>(static_cast<u32>(x >> 32))));
  return static_cast<u64>(high) << 32 | low;
}

// True if the condition holds in any lane of the wave.
HF_DEVICE bool any_lane(bool condition) {
#if !__has_builtin(__builtin_amdgcn_ballot_w64)
  return __builtin_amdgcn_uicmp(static_cast<u32>(condition), 0u, 33) != 0;  // not equal
#elif defined(__GFX9__)
  return __builtin_amdgcn_ballot_w64(condition) != 0;
#else
  return __builtin_amdgcn_ballot_w32(condition) != 0;
#endif
}

// ---- the block ----------------------------------------------------------------------------------
// All waves of the block arrive here with their shared memory accesses done. Unlike __syncthreads()
// it leaves global loads in flight.
HF_DEVICE void barrier() {
#if defined(__GFX12__)
  asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#else
  asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#endif
}

// The compiler's scheduler moves nothing across: it keeps the written order of a hot loop.
HF_DEVICE void fence() {
#if __has_builtin(__builtin_amdgcn_sched_barrier)
  __builtin_amdgcn_sched_barrier(0);
#endif
}

// Which of a SIMD's waves goes first where several could: a wave in its matrix products should, so
// that others do their vector work beside them.
template <int Level>
HF_DEVICE void priority() {
  __builtin_amdgcn_s_setprio(Level);
}

// ---- raw buffers --------------------------------------------------------------------------------
// Declared by the intrinsics' names, which every compiler since ROCm 4 knows.
__device__ u32 raw_load1(i32x4, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.i32");
__device__ u32x2 raw_load2(i32x4, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
__device__ u32x3 raw_load3(i32x4, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v3i32");
__device__ u32x4 raw_load4(i32x4, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
__device__ void raw_store1(u32, i32x4, int, int, int) __asm("llvm.amdgcn.raw.buffer.store.i32");
__device__ void raw_store4(u32x4, i32x4, int, int, int) __asm("llvm.amdgcn.raw.buffer.store.v4i32");

// `bytes` bytes at a uniform address. Words past the end read as 0 and are not written, so tails
// need no code. Offsets must be in the vector operand: whether a scalar offset is checked differs
// between architectures.
struct Buffer {
  i32x4 words;
};

HF_DEVICE Buffer make_buffer(const void* base, int bytes) {
#if defined(__GFX12__) || defined(__GFX11__)
  constexpr int kFormat = 0x31004000;
#elif defined(__GFX10__)
  constexpr int kFormat = 0x31014000;
#else
  constexpr int kFormat = 0x00020000;
#endif
  const unsigned long long address = reinterpret_cast<unsigned long long>(base);
  return {
      i32x4{static_cast<int>(address), static_cast<int>(address >> 32) & 0xffff, bytes, kFormat}};
}

// An offset that is past the end of every buffer.
constexpr int kNowhere = 0x7ffffff0;

HF_DEVICE u32 load1(Buffer buffer, int offset) {
  return raw_load1(buffer.words, offset, 0, 0);
}
HF_DEVICE u32x2 load2(Buffer buffer, int offset) {
  return raw_load2(buffer.words, offset, 0, 0);
}
HF_DEVICE u32x3 load3(Buffer buffer, int offset) {
  return raw_load3(buffer.words, offset, 0, 0);
}
HF_DEVICE u32x4 load4(Buffer buffer, int offset) {
  return raw_load4(buffer.words, offset, 0, 0);
}
HF_DEVICE void store1(Buffer buffer, int offset, u32 x) {
  raw_store1(x, buffer.words, offset, 0, 0);
}
HF_DEVICE void store4(Buffer buffer, int offset, u32x4 x) {
  raw_store4(x, buffer.words, offset, 0, 0);
}

#if HF_DIRECT_LOADS
// ---- straight to shared memory ------------------------------------------------------------------
using SharedPlace = u32;  // an address there

HF_DEVICE SharedPlace shared_place(char* p) {
  return reinterpret_cast<u32>((__attribute__((address_space(3))) char*)p);
}
// Lane i fetches 16 bytes at its offset to place to + 16 * i; past the end of the buffer lie zeros.
// As assembly, since the compiler would wait for it before the next read of shared memory. m0 is
// reserved: the compiler sets it before each use of its own, of which these kernels have none.
HF_DEVICE void load4_to_shared(Buffer buffer, int offset, SharedPlace to) {
  asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tbuffer_load_dwordx4 %1, %2, 0 offen lds" ::"s"(to),
               "v"(offset), "s"(buffer.words)
               : "memory");
}
// All loads that the wave has started are done.
HF_DEVICE void wait_for_loads() {
  __builtin_amdgcn_s_waitcnt(0x0f70);  // vmcnt(0); the compiler takes note for its own loads
}

// The four lanes 4 * i to 4 * i + 3 of each 16 bring row i of a matrix of 4 x 16 elements of 16
// bits, eight bytes each; lane j gets column j.
HF_DEVICE u32x2 read_transposed(const char* p) {
  using Shorts = short __attribute__((ext_vector_type(4)));
  using SharedShorts = __attribute__((address_space(3))) Shorts;
  return __builtin_bit_cast(u32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((SharedShorts*)p));
}
#endif

// ---- global memory by address -------------------------------------------------------------------
// An address in 64 bits. Loads from it are known to be of global memory, not of shared memory.
using Address = u64;

HF_DEVICE Address address_of(const void* p) {
  return reinterpret_cast<Address>(p);
}
HF_DEVICE const char* pointer_to(Address at) {
  return reinterpret_cast<const char*>(at);
}
template <class T>
HF_DEVICE T load_at(Address at) {
  return *reinterpret_cast<const T __attribute__((address_space(1)))*>(at);
}
template <class T>
HF_DEVICE void store_at(Address at, T x) {
  *reinterpret_cast<T __attribute__((address_space(1)))*>(at) = x;
}

// ---- arithmetic ---------------------------------------------------------------------------------
#if __has_builtin(__builtin_amdgcn_exp2f)
HF_DEVICE float hf_exp2(float x) {
  return __builtin_amdgcn_exp2f(x);
}
#else
HF_DEVICE float hf_exp2(float x) {
  return __builtin_exp2f(x);
}
#endif
#if __has_builtin(__builtin_amdgcn_logf)
HF_DEVICE float hf_log2(float x) {
  return __builtin_amdgcn_logf(x);
}
#else
HF_DEVICE float hf_log2(float x) {
  return __builtin_log2f(x);
}
#endif
HF_DEVICE float hf_abs(float x) {
  return __builtin_fabsf(x);
}
HF_DEVICE float hf_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
// The other one if NaN.
HF_DEVICE float hf_max(float a, float b) {
  return __builtin_fmaxf(a, b);
}

// 1 - 2 / (1 + e^2x) loses everything near 0, where the odd series x - x^3/3 + 2x^5/15 takes over.
HF_DEVICE float hf_tanh(float x) {
  const float y = 1.0f - 2.0f * __builtin_amdgcn_rcpf(1.0f + hf_exp2(x * 2.8853900817779268f));
  const float xx = x * x;
  const float series = x * hf_fma(xx, hf_fma(xx, 0.13333333f, -0.33333333f), 1.0f);
  return hf_abs(x) < 0.1f ? series : y;
}

}  // namespace hipflash
