// Attention over short sequences (game boards: 64 squares) on mma.sync: f16 and bf16, sm_80 and up.
//
// All keys and values of a head fit a block, so there is no loop and no running softmax: every copy
// of the block is under way before anything is computed, values arrive while scores are made, and
// many small blocks per multiprocessor keep the memory busy.
#include "gpu/tile/nv/cuda.h"

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/nv/accumulator_rows.h"
#include "gpu/tile/nv/schedule.h"

#include "gpu/tile/nv/ragged.h"

#include "gpu/tile/nv/mma_sm80.h"

namespace hipflash {

constexpr int kHeadDim = round_up(Spec::head_dim, 16);
constexpr int kValueDim = round_up(Spec::value_head_dim, 16);
constexpr int kKeys = Spec::keys;  // those of the problem, rounded up to 16
constexpr int kThreads = Spec::waves * 32;
constexpr int kRows = Spec::waves * 16;
constexpr bool kMasked = Spec::window_left || Spec::window_right || Spec::tail;

// S = Q . K^T for the 16 rows of a warp.
HF_DEVICE void multiply_keys(float (&s)[kKeys / 2], unsigned q_tile, unsigned k_tile, int warp) {
  const FragmentReader<kHeadDim> queries = rows_first_reader<kHeadDim>(warp * 16);
  const FragmentReader<kHeadDim> keys = columns_first_reader<kHeadDim>();
  HF_UNROLL
  for (int c = 0; c < kHeadDim / 16; c++) {
    unsigned q[4];
    queries.read(q, q_tile, 0, c);
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      unsigned k[4];
      keys.read(k, k_tile, n, c);
      if (c == 0) {
        mma_first(&s[8 * n], q, k[0], k[1]);
        mma_first(&s[8 * n + 4], q, k[2], k[3]);
      } else {
        mma(&s[8 * n], q, k[0], k[1]);
        mma(&s[8 * n + 4], q, k[2], k[3]);
      }
    }
  }
}

// P = exp2(S * scale - reference), as operand fragments; the rows' sums and references.
HF_DEVICE void softmax(unsigned (&p)[kKeys / 16][4], const float (&s)[kKeys / 2], float scale,
                       float (&reference)[2], float (&sum)[2]) {
  float largest[2];
  row_max(s, scale, largest);
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    reference[h] = quad_max(largest[h]);
    const float base = finite_reference<kMasked>(reference[h]);
    sum[h] = 0.0f;
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      float x[4];
      HF_UNROLL
      for (int e = 0; e < 4; e++) {
        x[e] = exp2_fast(fmaf(s[8 * n + 4 * (e / 2) + 2 * h + e % 2], scale, -base));
      }
      sum[h] += (x[0] + x[1]) + (x[2] + x[3]);
      p[n][h] = pack(x[0], x[1]);
      p[n][2 + h] = pack(x[2], x[3]);
    }
    sum[h] = quad_sum(sum[h]);
  }
}

// O = P . V
HF_DEVICE void multiply_values(float (&out)[kValueDim / 2], const unsigned (&p)[kKeys / 16][4],
                               unsigned v_tile) {
  const FragmentReader<kValueDim> values = rows_first_reader<kValueDim>(0);
  HF_UNROLL
  for (int c = 0; c < kValueDim / 16; c++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      unsigned v[4];
      values.read_transposed(v, v_tile, n, c);
      if (n == 0) {
        mma_first(&out[8 * c], p[n], v[0], v[1]);
        mma_first(&out[8 * c + 4], p[n], v[2], v[3]);
      } else {
        mma(&out[8 * c], p[n], v[0], v[1]);
        mma(&out[8 * c + 4], p[n], v[2], v[3]);
      }
    }
  }
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads, Spec::blocks_per_sm)
    attention_forward(const __grid_constant__ AttentionArgs args) {
  HF_SHARED_BYTES(shared);
  const unsigned q_tile = shared_address(shared), k_tile = q_tile + kRows * kHeadDim * 2,
                 v_tile = k_tile + kKeys * kHeadDim * 2;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;

  const int tiles = ceil_div(args.seq_q, kRows);
  const int batch_head = (int)blockIdx.x / tiles;
  const int first = ((int)blockIdx.x - batch_head * tiles) * kRows;
  const int batch = batch_head / args.heads_q, head = batch_head - batch * args.heads_q;
  const int kv_head = head / (args.heads_q / args.heads_kv);
  const KeyRange keys = keys_seen_by_any(args, first, min(first + kRows, args.seq_q) - 1);

  const char* q = (const char*)args.q + 2 * (batch * args.q_stride.batch +
                                             head * args.q_stride.head + first * args.q_stride.seq);
  const char* k =
      (const char*)args.k + 2 * (batch * args.k_stride.batch + kv_head * args.k_stride.head);
  const char* v =
      (const char*)args.v + 2 * (batch * args.v_stride.batch + kv_head * args.v_stride.head);
  launch_next();
  wait_for_launch_before();
  load_tile<kRows, kHeadDim, kThreads, false>(q_tile, q, 2 * args.q_stride.seq, 0,
                                              args.seq_q - first, Spec::head_dim);
  // Keys and values that no row of the block sees are zeros, whatever is in memory.
  load_tile<kKeys, kHeadDim, kThreads, !kMasked>(k_tile, k, 2 * args.k_stride.seq, keys.first,
                                                 keys.end, Spec::head_dim);
  copies_issued();
  load_tile<kKeys, kValueDim, kThreads, !kMasked>(v_tile, v, 2 * args.v_stride.seq, keys.first,
                                                  keys.end, Spec::value_head_dim);
  copies_issued();

  LaneRows rows;
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    rows.query[h] = first + warp * 16 + 8 * h + lane / 4;
    rows.head[h] = head;
  }
  wait_copies<1>();
  barrier();
  float s[kKeys / 2];
  multiply_keys(s, q_tile, k_tile, warp);
  if constexpr (kMasked || kScoreModified) {
    modify_scores<kMasked>(args, s, rows, batch, 2 * (lane & 3));
  }
  unsigned p[kKeys / 16][4];
  float reference[2], sum[2];
  softmax(p, s, exponent_scale(args), reference, sum);

  wait_copies<0>();
  barrier();
  float out[kValueDim / 2];
  multiply_values(out, p, v_tile);

  float factor[2];
  char* row[2];
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const int query = rows.query[h];
    const bool exists = query < args.seq_q;
    factor[h] = inverse_sum(sum[h]);
    row[h] = exists
                 ? (char*)args.out + 2 * (batch * args.out_stride.batch +
                                          head * args.out_stride.head + query * args.out_stride.seq)
                 : nullptr;
    if (Spec::lse && args.lse && exists && (lane & 3) == 0) {
      args.lse[batch * args.lse_stride.batch + head * args.lse_stride.head +
               query * args.lse_stride.seq] = log_sum_exp(reference[h], sum[h]);
    }
  }
  store_rows_aligned(out, factor, row, Spec::value_head_dim);
}
