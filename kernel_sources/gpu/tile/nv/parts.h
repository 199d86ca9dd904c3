// Parts of a block, each with warps and buffers of its own, that share the keys of a few rows.
#pragma once

namespace hipflash {

constexpr int kParts = Spec::key_parts;
static_assert(kParts == 1 || Spec::pack_heads, "parts are for few rows");
constexpr bool kOnce = kParts > 1;  // long keys, which one block reads for all rows that see them

// Shared memory of one part of the keys.
constexpr int kPartBytes = round_up(
    kQBytes + kStages * (kKBytes + kVBytes) + 32 + (Spec::paged ? nv_paged_bytes(kKeys) : 0), 128);

// A barrier of the warps that share keys.
HF_DEVICE void part_barrier() {
  if constexpr (kThreads == 32) {
    __syncwarp();
  } else if constexpr (kParts == 1) {
    barrier();
  } else {
    barrier_of<kThreads>((int)threadIdx.y + 1);
  }
}

// Joins what the parts of a block made of their keys, through the shared memory that held these.
// True in the part that has the result.
HF_DEVICE bool join_parts(WarpTile& warp, int& fault) {
  HF_SHARED_BYTES(shared);
  constexpr int kOut = kRowTiles * kValueDim / 2, kWords = kOut + 4 * kRowTiles + 1;
  static_assert(kParts == 1 || kWords * kThreads * 4 <= kPartBytes);
  const auto words_of = [&](int part) {
    return (float*)(shared + part * kPartBytes) + threadIdx.x / 32 * (kWords * 32) +
           (threadIdx.x & 31);
  };
  if (threadIdx.y > 0) {
    float* const words = words_of(threadIdx.y);
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int n = 0; n < kValueDim / 2; n++) words[(i * kValueDim / 2 + n) * 32] = warp.out[i][n];
      HF_UNROLL
      for (int h = 0; h < 2; h++) {
        words[(kOut + 4 * i + h) * 32] = warp.softmax[i].reference[h];
        words[(kOut + 4 * i + 2 + h) * 32] = warp.softmax[i].sum[h];
      }
    }
    words[(kWords - 1) * 32] = __int_as_float(fault);
  }
  __syncthreads();
  if (threadIdx.y > 0) return false;
#pragma unroll 1
  for (int part = 1; part < kParts; part++) {
    const float* const words = words_of(part);
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      float before[2], other[2];
      HF_UNROLL
      for (int h = 0; h < 2; h++) {
        SoftmaxRows& rows = warp.softmax[i];
        const float reference = words[(kOut + 4 * i + h) * 32];
        const float larger = fmaxf(rows.reference[h], reference);
        const float base = finite_reference<true>(larger);
        before[h] = exp2_fast(rows.reference[h] - base);
        other[h] = exp2_fast(reference - base);
        rows.sum[h] = rows.sum[h] * before[h] + words[(kOut + 4 * i + 2 + h) * 32] * other[h];
        rows.reference[h] = larger;
      }
      HF_UNROLL
      for (int n = 0; n < kValueDim / 2; n++) {
        const int h = n / 2 % 2;
        warp.out[i][n] =
            warp.out[i][n] * before[h] + words[(i * kValueDim / 2 + n) * 32] * other[h];
      }
    }
    const int found = __float_as_int(words[(kWords - 1) * 32]);
    if (found != kNoFault) fault = found;
  }
  return true;
}

}  // namespace hipflash
