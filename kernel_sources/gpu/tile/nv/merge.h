// Joins the partial results of keys that were split over blocks:
//   out = sum_s exp(lse_s - lse) * out_s,   lse = log sum_s exp(lse_s).
#pragma once

namespace hipflash {

// Stores one output element.
HF_DEVICE void store_output(void* out, long long index, float x) {
  if constexpr (Spec::element == ElementType::f32) {
    ((float*)out)[index] = x;
  } else {
    ((unsigned short*)out)[index] = (unsigned short)pack(x, 0.0f);
  }
}

// True for a row of packed queries that some sequence owns.
HF_DEVICE bool in_a_sequence(const AttentionArgs& args, int row) {
  int low = 0, high = args.batch + 1;  // the first offset beyond the row
  while (low < high) {
    const int middle = (low + high) / 2;
    if (sequence_offset(args, args.cu_seqlens_q, middle) > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low > 0 && low <= args.batch && sequence_offset(args, args.cu_seqlens_q, low - 1) >= 0 &&
         sequence_offset(args, args.cu_seqlens_q, low) <= args.total_q;
}

HF_DEVICE float warp_max(float x) {
  HF_UNROLL
  for (int d = 1; d < 32; d *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  return x;
}
HF_DEVICE float warp_sum(float x) {
  HF_UNROLL
  for (int d = 1; d < 32; d *= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

// A warp takes kMergeColumns columns of a row at a time, four to a lane: a piece of 16 bytes, or
// every 32nd where rows do not begin at multiples of that.
constexpr int kMergeColumns = 128;
constexpr bool kMergePieces = Spec::value_head_dim != 0 && Spec::value_head_dim % 4 == 0;
HF_DEVICE int merge_column(int e) {
  const int lane = threadIdx.x & 31;
  return kMergePieces ? 4 * lane + e : lane + 32 * e;
}

// Four values of a lane in a row of `columns`; those outside are zeros.
HF_DEVICE float4 merge_values(const float* row, int columns) {
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if constexpr (kMergePieces) {
    if (merge_column(0) < columns) x = *(const float4*)(row + merge_column(0));
  } else {
    if (merge_column(0) < columns) x.x = row[merge_column(0)];
    if (merge_column(1) < columns) x.y = row[merge_column(1)];
    if (merge_column(2) < columns) x.z = row[merge_column(2)];
    if (merge_column(3) < columns) x.w = row[merge_column(3)];
  }
  return x;
}

}  // namespace hipflash

// nv_merge_warps() warps share a row (batch, head, query) of q as it lies in memory: warp p of them
// sums the splits p, p + warps, ..., and their sums are added in order: one that depends on nothing
// but the number of warps. Partial results that saw nothing (0, -inf) do not count; if all
// are such, the result is (0, -inf). Packed rows that belong to no sequence are left alone.
extern "C" __global__ void __launch_bounds__(hipflash::nv_merge_threads())
    attention_merge(const __grid_constant__ hipflash::AttentionArgs args) {
  using namespace hipflash;
  if constexpr (Spec::split_keys) {
    constexpr int kWarps = nv_merge_threads() / 32;
    __shared__ __align__(16) float sums[kWarps][kMergeColumns];
    const int warps = nv_merge_warps(args), warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int part = warp % warps;
    const long long rows = (long long)args.partial_batch * args.heads_q * args.partial_seq;
    // Partial results of 2^32 rows fit no memory.
    const unsigned number = blockIdx.x * (kWarps / warps) + warp / warps;
    bool exists = number < rows;
    const unsigned row = exists ? number : 0;
    const unsigned batch_head = row / (unsigned)args.partial_seq;
    const int query = (int)(row - batch_head * args.partial_seq);
    const int batch = (int)(batch_head / (unsigned)args.heads_q);
    const int head = (int)(batch_head - batch * (unsigned)args.heads_q);
    if constexpr (Spec::ragged) {
      if (args.cu_seqlens_q) exists = exists && in_a_sequence(args, query);
    }
    wait_for_launch_before();

    constexpr int kRound = 8;  // splits whose values a warp waits for at a time
    const float* lses = args.partial_lse + row;
    const long long out =
        batch * args.out_stride.batch + head * args.out_stride.head + query * args.out_stride.seq;
    float reference = 0.0f;
    RowResult result = {0.0f, 0.0f};
    for (int first = 0; first < args.value_head_dim; first += kMergeColumns) {
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
      for (int split = part; split < args.splits || split == part; split += kRound * warps) {
        float4 x[kRound];
        float lse[kRound];
        HF_UNROLL
        for (int i = 0; i < kRound; i++) {
          const int s = split + i * warps;
          const bool counts = s < args.splits;
          const long long at = (counts ? s : 0) * rows;
          lse[i] = counts ? lses[at] : -kInfinity;
          x[i] = merge_values(args.partial_out + (at + row) * args.value_head_dim + first,
                              counts ? args.value_head_dim - first : 0);
        }
        if (first == 0 && split == part) {  // while these are under way
          float largest = -kInfinity, total = 0.0f;
#pragma unroll 1
          for (int s = lane; s < args.splits; s += 32) largest = fmaxf(largest, lses[s * rows]);
          largest = warp_max(largest);
          reference = largest == -kInfinity ? 0.0f : largest;
#pragma unroll 1
          for (int s = lane; s < args.splits; s += 32)
            total += exp2_fast((lses[s * rows] - reference) * kLog2e);
          total = warp_sum(total);
          result = {inverse_sum(total),
                    total == 0.0f ? -kInfinity : reference + log2_fast(total) * kLn2};
          if constexpr (Spec::sinks) {
            if (args.sinks) result = join_sink(largest * kLog2e, total, args.sinks[head]);
          }
        }
        HF_UNROLL
        for (int i = 0; i < kRound; i++) {
          const float weight = exp2_fast((lse[i] - reference) * kLog2e) * result.factor;
          sum.x = fmaf(weight, x[i].x, sum.x);
          sum.y = fmaf(weight, x[i].y, sum.y);
          sum.z = fmaf(weight, x[i].z, sum.z);
          sum.w = fmaf(weight, x[i].w, sum.w);
        }
      }
      sums[warp][merge_column(0)] = sum.x;
      sums[warp][merge_column(1)] = sum.y;
      sums[warp][merge_column(2)] = sum.z;
      sums[warp][merge_column(3)] = sum.w;
      __syncthreads();
#pragma unroll 1
      for (int column = 32 * part + lane; column < kMergeColumns; column += 32 * warps) {
        float y = sums[warp - part][column];
#pragma unroll 1
        for (int p = 1; p < warps; p++) y += sums[warp - part + p][column];
        if (exists && first + column < args.value_head_dim)
          store_output(args.out, out + first + column, y);
      }
      __syncthreads();
    }
    if (Spec::lse && args.lse && exists && part == 0 && lane == 0) {
      args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
               query * args.lse_stride.seq] = result.lse;
    }
  }
}
