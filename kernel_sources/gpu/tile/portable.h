// Words for texts that are the same on AMD GPUs, on NVIDIA GPUs and on the host: what amd/hip.h,
// nv/cuda.h and their host.h name alike, and the few things that they do not. For kernels that
// memory bounds, which have no use for a matrix unit.
#pragma once

// A text has each file once: this one where amd/host.h finds it as well as nv/host.h.
#if defined(HF_HOST) || !(defined(__CUDACC__) || defined(__AMDGCN__) || defined(__HIP__))
#include "gpu/tile/host_bits.h"
#endif
#if defined(__CUDACC__)
#include "gpu/tile/nv/cuda.h"
#elif defined(__AMDGCN__) || defined(__HIP__)
#include "gpu/tile/amd/hip.h"
#else
#include "gpu/tile/amd/host.h"
#endif

#if defined(__CUDACC__)
#define HF_KERNEL_THREADS(threads) extern "C" __global__ void __launch_bounds__(threads)
#define HF_ARGUMENTS(type) const __grid_constant__ type
#elif defined(__AMDGCN__) || defined(__HIP__)
#define HF_KERNEL_THREADS(threads) \
  extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads))) void
#define HF_ARGUMENTS(type) const type
#else
#define HF_KERNEL_THREADS(threads) extern "C" void
#define HF_ARGUMENTS(type) const type
#endif

namespace hipflash {

#if defined(__CUDACC__)
HF_DEVICE int thread_id() {
  return (int)threadIdx.x;
}
HF_DEVICE int block_id() {
  return (int)blockIdx.x;
}
HF_DEVICE float lane_xor(float x, int mask) {
  return __shfl_xor_sync(~0u, x, mask);
}
HF_DEVICE float hf_exp2(float x) {
  return exp2_fast(x);
}
HF_DEVICE float hf_log2(float x) {
  return log2_fast(x);
}
HF_DEVICE float hf_fma(float a, float b, float c) {
  return fmaf(a, b, c);
}
HF_DEVICE float hf_max(float a, float b) {
  return fmaxf(a, b);
}
#endif

// ---- elements -----------------------------------------------------------------------------------

// A 16-bit element of type `kType` as a float, and two floats as 16-bit elements in one word.
template <ElementType kType>
HF_DEVICE float half_element(u16 x) {
  if constexpr (kType == ElementType::bf16) return from_bits((u32)x << 16);
#if defined(__CUDACC__)
  return half_to_float(x);
#else
  return f16_to_float(x);
#endif
}
template <ElementType kType>
HF_DEVICE u32 half_pair(float first, float second) {
#if defined(__CUDACC__)
  return pack_as<kType == ElementType::bf16>(first, second);
#else
  if constexpr (kType == ElementType::bf16) return pack_bf16_nearest(first, second);
  return pack_f16_nearest(first, second);
#endif
}

constexpr int bytes_of(ElementType type) {
  return type == ElementType::f32 ? 4 : 2;
}

// ---- global memory ------------------------------------------------------------------------------

// Saying that an address is of global memory spares the check that a generic access makes.
#if defined(__AMDGCN__)
#define HF_GLOBAL __attribute__((address_space(1)))
#else
#define HF_GLOBAL
#endif

// 16 bytes of a row.
struct alignas(16) Piece {
  u32 word[4];
};

HF_DEVICE Piece load_piece(const void* from) {
  Piece x;
#if defined(__CUDACC__)
  load_global(x.word, from);
#else
  const u32x4 words = *(const HF_GLOBAL u32x4*)from;
  HF_UNROLL
  for (int i = 0; i < 4; i++) x.word[i] = words[i];
#endif
  return x;
}
HF_DEVICE void store_piece(void* to, const Piece& x) {
#if defined(__CUDACC__)
  *(uint4*)to = make_uint4(x.word[0], x.word[1], x.word[2], x.word[3]);
#else
  *(HF_GLOBAL u32x4*)to = u32x4{x.word[0], x.word[1], x.word[2], x.word[3]};
#endif
}

// Element i of a piece of elements of `kType`; i is known at compile time where it is called.
template <ElementType kType>
HF_DEVICE float piece_element(const Piece& x, int i) {
  if constexpr (kType == ElementType::f32) return from_bits(x.word[i]);
  return half_element<kType>((u16)(x.word[i / 2] >> (16 * (i % 2))));
}
// The piece of 16 / bytes_of(kType) floats.
template <ElementType kType>
HF_DEVICE Piece piece_of(const float* x) {
  Piece piece;
  HF_UNROLL
  for (int i = 0; i < 4; i++) {
    piece.word[i] =
        kType == ElementType::f32 ? bits(x[i]) : half_pair<kType>(x[2 * i], x[2 * i + 1]);
  }
  return piece;
}

template <class T>
HF_DEVICE T load_scalar(const void* base, long long index) {
  return ((const HF_GLOBAL T*)base)[index];
}
template <class T>
HF_DEVICE void store_scalar(void* base, long long index, T x) {
  ((HF_GLOBAL T*)base)[index] = x;
}

// One element of `kType` as a float.
template <ElementType kType>
HF_DEVICE float load_element(const void* base, long long index) {
  if constexpr (kType == ElementType::f32) return load_scalar<float>(base, index);
  return half_element<kType>(load_scalar<u16>(base, index));
}
template <ElementType kType>
HF_DEVICE void store_one(void* base, long long index, float x) {
  if constexpr (kType == ElementType::f32) {
    store_scalar<float>(base, index, x);
  } else {
    store_scalar<u16>(base, index, (u16)half_pair<kType>(x, 0.0f));
  }
}

}  // namespace hipflash
