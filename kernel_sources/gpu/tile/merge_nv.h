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

// True for a row of packed queries that some sequence owns. All lanes of a warp ask for one row.
HF_DEVICE bool in_a_sequence(const AttentionArgs& args, int row) {
  bool inside = false;
  for (int b = (int)(threadIdx.x & 31); b < args.batch; b += 32) {
    const long long first = sequence_offset(args, args.cu_seqlens_q, b),
                    end = sequence_offset(args, args.cu_seqlens_q, b + 1);
    inside |= first >= 0 && row >= first && row < end && end <= args.total_q;
  }
  return __any_sync(~0u, inside);
}

}  // namespace hipflash

// One warp per (batch, head, query) of q as it lies in memory; launched as ceil(rows / 4) blocks of
// 128. Partial results that saw nothing (0, -inf) do not count; if all are such, the result is (0,
// -inf). Packed rows that belong to no sequence are left alone.
extern "C" __global__ void __launch_bounds__(128)
    attention_merge(const __grid_constant__ hipflash::AttentionArgs args) {
  using namespace hipflash;
  if constexpr (Spec::split_keys) {
    const long long rows = (long long)args.partial_batch * args.heads_q * args.partial_seq;
    const long long row = (long long)blockIdx.x * 4 + threadIdx.x / 32;
    const int lane = threadIdx.x & 31;
    if (row >= rows) return;
    const int query = (int)(row % args.partial_seq);
    const int head = (int)(row / args.partial_seq % args.heads_q);
    const long long batch = row / args.partial_seq / args.heads_q;
    if constexpr (Spec::ragged) {
      if (args.cu_seqlens_q && !in_a_sequence(args, query)) return;
    }
    float largest = -kInfinity;
    for (int s = 0; s < args.splits; s++)
      largest = fmaxf(largest, args.partial_lse[s * rows + row]);
    const float reference = largest == -kInfinity ? 0.0f : largest;
    float sum = 0.0f;
    for (int s = 0; s < args.splits; s++) {
      sum += exp2_fast((args.partial_lse[s * rows + row] - reference) * kLog2e);
    }
    RowResult result = {inverse_sum(sum),
                        sum == 0.0f ? -kInfinity : reference + log2_fast(sum) * kLn2};
    if constexpr (Spec::sinks) {
      if (args.sinks) result = join_sink(largest * kLog2e, sum, args.sinks[head]);
    }
    const long long out =
        batch * args.out_stride.batch + head * args.out_stride.head + query * args.out_stride.seq;
    for (int column = lane; column < args.value_head_dim; column += 32) {
      float x = 0.0f;
      for (int s = 0; s < args.splits; s++) {
        const float weight =
            exp2_fast((args.partial_lse[s * rows + row] - reference) * kLog2e) * result.factor;
        x += weight * args.partial_out[(s * rows + row) * args.value_head_dim + column];
      }
      store_output(args.out, out + column, x);
    }
    if (Spec::lse && args.lse && lane == 0) {
      args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
               query * args.lse_stride.seq] = result.lse;
    }
  }
}
