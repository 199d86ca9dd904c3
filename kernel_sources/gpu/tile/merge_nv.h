// Joins the partial results of keys that were split over blocks:
//   out = sum_s exp(lse_s - lse) * out_s,   lse = log sum_s exp(lse_s).
#pragma once

namespace hipflash {

// A launch may begin while the one before it in its stream still runs: launch_next() lets it, where
// every block of this one has said so, and wait_for_launch_before() waits until that one is through
// with everything.
HF_DEVICE void launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
HF_DEVICE void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

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

// Partial results of one row, of every `step`-th split from `split` on.
struct MergeRound {
  static constexpr int kSplits = 8;
  float lse[kSplits];
  float x[kSplits][4];

  HF_DEVICE void load(const AttentionArgs& args, long long rows, long long row, int first_column,
                      int split, int step) {
    const int columns = args.value_head_dim - first_column;
    HF_UNROLL
    for (int i = 0; i < kSplits; i++) {
      const bool exists = split + i * step < args.splits;
      const long long at = (exists ? split + i * step : 0) * rows + row;
      const float* from = args.partial_out + at * args.value_head_dim + first_column;
      lse[i] = exists ? args.partial_lse[at] : -kInfinity;
      float4 piece = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if constexpr (kMergePieces) {
        if (exists && merge_column(0) < columns) piece = *(const float4*)(from + merge_column(0));
      } else {
        if (exists && merge_column(0) < columns) piece.x = from[merge_column(0)];
        if (exists && merge_column(1) < columns) piece.y = from[merge_column(1)];
        if (exists && merge_column(2) < columns) piece.z = from[merge_column(2)];
        if (exists && merge_column(3) < columns) piece.w = from[merge_column(3)];
      }
      x[i][0] = piece.x, x[i][1] = piece.y, x[i][2] = piece.z, x[i][3] = piece.w;
    }
  }
};

}  // namespace hipflash

// nv_merge_warps() warps share a row (batch, head, query) of q as it lies in memory: warp p of them
// sums the splits p, p + warps, ..., and their sums are added in order. So the order depends on
// nothing but the number of warps. Partial results that saw nothing (0, -inf) do not count; if all
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
    const long long number = (long long)blockIdx.x * (kWarps / warps) + warp / warps;
    const long long row = min(number, rows - 1);
    const int query = (int)(row % args.partial_seq);
    const unsigned batch_head = (unsigned)(row / args.partial_seq);
    const int head = (int)(batch_head % (unsigned)args.heads_q);
    const int batch = (int)(batch_head / (unsigned)args.heads_q);
    bool exists = number < rows;
    if constexpr (Spec::ragged) {
      if (args.cu_seqlens_q) exists = exists && in_a_sequence(args, query);
    }
    wait_for_launch_before();

    MergeRound round;
    round.load(args, rows, row, 0, part, warps);
    float largest = -kInfinity;
    for (int s = lane; s < args.splits; s += 32)
      largest = fmaxf(largest, args.partial_lse[s * rows + row]);
    largest = warp_max(largest);
    const float reference = largest == -kInfinity ? 0.0f : largest;
    float sum = 0.0f;
    for (int s = lane; s < args.splits; s += 32)
      sum += exp2_fast((args.partial_lse[s * rows + row] - reference) * kLog2e);
    sum = warp_sum(sum);
    RowResult result = {inverse_sum(sum),
                        sum == 0.0f ? -kInfinity : reference + log2_fast(sum) * kLn2};
    if constexpr (Spec::sinks) {
      if (args.sinks) result = join_sink(largest * kLog2e, sum, args.sinks[head]);
    }

    const long long out =
        batch * args.out_stride.batch + head * args.out_stride.head + query * args.out_stride.seq;
    for (int first = 0; first < args.value_head_dim; first += kMergeColumns) {
      if (first > 0) round.load(args, rows, row, first, part, warps);
      float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      for (int s = part;;) {
        HF_UNROLL
        for (int i = 0; i < MergeRound::kSplits; i++) {
          const float weight = exp2_fast((round.lse[i] - reference) * kLog2e) * result.factor;
          HF_UNROLL
          for (int e = 0; e < 4; e++) x[e] = fmaf(weight, round.x[i][e], x[e]);
        }
        s += MergeRound::kSplits * warps;
        if (s >= args.splits) break;
        round.load(args, rows, row, first, s, warps);
      }
      HF_UNROLL
      for (int e = 0; e < 4; e++) sums[warp][merge_column(e)] = x[e];
      __syncthreads();
      for (int column = 32 * part + lane; column < kMergeColumns; column += 32 * warps) {
        float y = 0.0f;
        for (int p = 0; p < warps; p++) y += sums[warp - part + p][column];
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
