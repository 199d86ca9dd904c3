// Attention in f32 on the tf32 matrix units of NVIDIA GPUs: three products of tf32 for each product
// of f32, see tile/mma_tf32.h.
//
// Warps come in pairs that share 16 row_tiles query rows. The first of a pair computes scores and
// probabilities, the second multiplies those with the values one step behind, so each has the
// registers for its own work and while one is at the softmax the other keeps the matrix units busy.
//
// The units cut sums off where f32 rounds, and thousands of such steps add up. So no sum there is
// longer than a head dimension or a tile of keys; what they give is added in f32.
//
// Infinities and NaN come out of the parts as NaN. A block that ends with anything not finite does
// its work again by multiply-adds, so that they mean what they mean in f32.
#include "gpu/tile/cuda.h"

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/accumulator_rows.h"
#include "gpu/tile/copy_sm80.h"
#include "gpu/tile/mma_tf32.h"
#include "gpu/tile/rows_f32.h"

#include "gpu/tile/ragged_nv.h"

#include "gpu/tile/merge_nv.h"

namespace hipflash {

constexpr int kRowTiles = Spec::row_tiles;
constexpr int kHeadDim = round_up(Spec::head_dim ? Spec::head_dim : nv_max_head_dim(), 8);
constexpr int kValueDim =
    nvtf32_value_chunk(kRowTiles, Spec::value_head_dim ? Spec::value_head_dim : nv_max_head_dim());
constexpr int kKeys = Spec::tile_keys;
constexpr int kPairs = Spec::pairs, kGroup = kPairs * 32;  // threads of one kind
constexpr int kRows = kPairs * kRowTiles * 16;
constexpr int kPieces = kValueDim / 16;
constexpr int kCopies = Spec::paged ? 4 : 1;  // at a time, where rows need a look
// Pitches in floats: rows that lanes read together start at different banks.
constexpr int kPitch = kHeadDim + 4, kValuePitch = kValueDim + 8, kPPitch = kKeys + 4;

// Shared memory, in bytes from its start. K, V and P have two buffers each.
struct Places {
  static constexpr int q = 0;
  static constexpr int k = q + 4 * kRows * kPitch;
  static constexpr int v = k + 2 * 4 * kKeys * kPitch;
  static constexpr int p = v + 2 * 4 * kKeys * kValuePitch;
  static constexpr int factor = p + 2 * 4 * kRows * kPPitch;  // of each row, where it moved
  static constexpr int moved = factor + 2 * 4 * kRows;        // a word for each pair
  static constexpr int seen = moved + 2 * 4 * kPairs;         // likewise: a bit for each key
  static constexpr int reference = seen + 2 * 4 * kPairs;     // of each row, at the end
  static constexpr int sum = reference + 4 * kRows;
  static constexpr int kept = sum + 4 * kRows;  // what only the epilogue needs
};
static_assert(kKeys <= 32);

}  // namespace hipflash

#include "gpu/tile/products_tf32.h"

namespace hipflash {

// Barriers between the two kinds of warps: P of a buffer is there, or has been read.
HF_DEVICE void arrive(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(2 * kGroup) : "memory");
}
HF_DEVICE void meet(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(2 * kGroup) : "memory");
}
constexpr int kFull = 1, kEmpty = 3;

// P = exp2(S * scale - reference), to shared memory; adds to the sums. `p` is this lane's first
// element.
template <bool kMasked>
HF_DEVICE void exponentials(const float (&s)[kKeys / 2], SoftmaxRows& rows, float scale,
                            unsigned p) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const float reference = finite_reference<kMasked>(rows.reference[h]);
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      const float x = exp2_fast(fmaf(s[4 * n + 2 * h], scale, -reference)),
                  y = exp2_fast(fmaf(s[4 * n + 2 * h + 1], scale, -reference));
      rows.sum[h] += x + y;
      store_pair(p + 4 * (8 * h * kPPitch + 8 * n), x, y);
    }
  }
}

// What a block works on. The piece of work is read from shared memory where it is needed: registers
// are what this kernel is short of.
struct Block {
  const AttentionArgs& args;
  unsigned shared;
  Steps steps;

  // In the group of its kind. Read anew each time, so that nothing that follows from it is kept.
  HF_DEVICE static int thread() {
    int x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x % kGroup;
  }
  // The first row of the warp in the block.
  HF_DEVICE static int warp_row() { return thread() / 32 * kRowTiles * 16; }

  HF_DEVICE Work work() const {
    Work w = kept_work(shared + Places::kept);
    if constexpr (Spec::ragged) w.batch = 0;  // `args` are those of the sequence
    return w;
  }

  // Some rows of the block may have no key in a step. Both warps of a pair must say the same.
  HF_DEVICE bool needs(int step) const {
    const int row = work().row + warp_row();
    const KeyRange of_warp = keys_seen_by_any(args, row, min(row + kRowTiles * 16, args.seq_q) - 1);
    return step * kKeys < of_warp.end && (step + 1) * kKeys > of_warp.first;
  }

  // Copies the keys or values of a step.
  template <int Columns, int Pitch>
  HF_DEVICE void load(unsigned to, const void* from, const RowStrides& stride, int step,
                      int first_column, int columns) const {
    const Work piece = work();
    const KeyRange keys = keys_seen_by_any(args, piece.row, min(piece.row + kRows, args.seq_q) - 1);
    const float* head = (const float*)from + piece.kv_head * stride.head + first_column;
    const int first = step * kKeys;
    const auto distance = [&](int row) {
      return Spec::paged ? key_offset(args, stride, first + row) : row * stride.seq;
    };
    if constexpr (!Spec::paged) head += piece.batch * stride.batch + first * stride.seq;
    const bool whole = first >= keys.first && first + kKeys <= keys.end && columns == Columns;
    if (Spec::aligned && !Spec::paged && whole) {
      load_whole_rows<kKeys, Columns, Pitch, kGroup>(to, head, stride.seq, thread());
    } else {
      load_rows_at<kKeys, Columns, Pitch, kGroup, kCopies>(to, head, distance, keys.first - first,
                                                           keys.end - first, columns, thread());
    }
    copies_issued();
  }
};

// One warp of a pair: scores and probabilities. Leaves the references and sums of its rows in
// shared memory.
template <bool kExact>
HF_DEVICE void score(const Block& block) {
  const AttentionArgs& args = block.args;
  const int lane = threadIdx.x & 31, pair = threadIdx.x / 32;
  const int head_dim = Spec::head_dim ? Spec::head_dim : args.head_dim;
  const unsigned q_tile = block.shared + Places::q + 4 * block.warp_row() * kPitch,
                 q_lane = q_tile + 4 * (lane % 16 * kPitch + lane / 16 * 4),
                 k_lane = 4 * ((lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 4),
                 p_lane = 4 * ((block.warp_row() + lane / 4) * kPPitch + lane % 4 * 2);
  const auto load_keys = [&](int step) {
    block.load<kHeadDim, kPitch>(block.shared + Places::k + step % 2 * (4 * kKeys * kPitch), args.k,
                                 args.k_stride, step, 0, head_dim);
  };
  const Work work = block.work();
  const float* q = (const float*)args.q + work.batch * args.q_stride.batch +
                   work.head * args.q_stride.head + work.row * args.q_stride.seq;
  const int rows = args.seq_q - work.row;
  if (Spec::aligned && rows >= kRows && head_dim == kHeadDim) {
    load_whole_rows<kRows, kHeadDim, kPitch, kGroup>(block.shared + Places::q, q, args.q_stride.seq,
                                                     block.thread());
  } else {
    load_rows_at<kRows, kHeadDim, kPitch, kGroup, kCopies>(
        block.shared + Places::q, q, [&](int row) { return row * args.q_stride.seq; }, 0, rows,
        head_dim, block.thread());
  }
  if (block.steps.end > block.steps.begin) load_keys(block.steps.end - 1);

  SoftmaxRows softmax[kRowTiles];
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) softmax[i].clear();
  const float scale = exponent_scale(args);

  const auto do_step = [&](int step, auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    const int buffer = step % 2;
    wait_copies<0>();
    meet(kEmpty + buffer);  // K is there, and all warps are through with the K and P before
    if (step > block.steps.begin) load_keys(step - 1);
    if (!kMasked || block.needs(step)) {
      const unsigned keys = block.shared + Places::k + buffer * (4 * kKeys * kPitch);
      float s[kRowTiles][kKeys / 2];
      if constexpr (kExact) {
        multiply_keys_exactly(s, q_tile + 4 * (lane / 4 * kPitch),
                              keys + 4 * (lane % 4 * 2 * kPitch));
      } else {
        multiply_keys(s, q_lane, keys + k_lane);
      }
      if constexpr (kMasked || kScoreModified) {
        const Work piece = block.work();
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          const int row = piece.row + block.warp_row() + 16 * i + lane / 4;
          const LaneRows of_lane = {{row, row + 8}, {piece.head, piece.head}};
          modify_scores<kMasked>(args, s[i], of_lane, piece.batch, step * kKeys + 2 * (lane & 3));
        }
      }
      if constexpr (kElementwise) {
        const unsigned seen = keys_of_warp(keys_in_sight(s));
        if (lane == 0) store_bits(block.shared + Places::seen + 4 * (buffer * kPairs + pair), seen);
      }
      float largest[kRowTiles][2];
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) row_max(s[i], scale, largest[i]);
      const bool moves = must_move(softmax, largest);
      if (lane == 0) store_bits(block.shared + Places::moved + 4 * (buffer * kPairs + pair), moves);
      if (moves) {
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          float factor[2];
          move_reference(softmax[i], largest[i], factor);
          HF_UNROLL
          for (int h = 0; h < 2; h++) {
            const int row = block.warp_row() + 16 * i + 8 * h + lane / 4;
            if (lane % 4 == 0)
              store_word(block.shared + Places::factor + 4 * (buffer * kRows + row), factor[h]);
          }
        }
      }
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        exponentials<kMasked>(s[i], softmax[i], scale,
                              block.shared + Places::p + buffer * (4 * kRows * kPPitch) + p_lane +
                                  4 * 16 * i * kPPitch);
      }
    }
    arrive(kFull + buffer);
  };
  const Steps& steps = block.steps;
  int step = steps.end - 1;
#pragma unroll 1
  for (; step >= steps.begin && (kExact || step >= steps.unmasked_end); step--)
    do_step(step, Constant<true>());
  if constexpr (!kElementwise && !kExact) {
#pragma unroll 1
    for (; step >= steps.begin && step >= steps.unmasked_begin; step--)
      do_step(step, Constant<false>());
  }
  if constexpr (Spec::window_left && !kExact) {
#pragma unroll 1
    for (; step >= steps.begin; step--) do_step(step, Constant<true>());
  }
  wait_copies<0>();
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int row = block.warp_row() + 16 * i + 8 * h + lane / 4;
      const float sum = quad_sum(softmax[i].sum[h]);
      if (lane % 4 == 0) {
        store_word(block.shared + Places::reference + 4 * row, softmax[i].reference[h]);
        store_word(block.shared + Places::sum + 4 * row, sum);
      }
    }
  }
}

// The other warp of a pair: O = P . V.
template <bool kExact>
HF_DEVICE void weigh(const Block& block, OutTile& out) {
  const AttentionArgs& args = block.args;
  const Steps& steps = block.steps;
  const int lane = threadIdx.x & 31;
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const unsigned p_rows = 4 * block.warp_row() * kPPitch;
  const auto load_values = [&](int step) {
    const int chunk = block.work().chunk;
    block.load<kValueDim, kValuePitch>(
        block.shared + Places::v + step % 2 * (4 * kKeys * kValuePitch), args.v, args.v_stride,
        step, chunk * kValueDim, min(value_dim - chunk * kValueDim, kValueDim));
  };
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) out[i][n] = 0.0f;
  }
  for (int step = steps.end - 1; step >= steps.begin && step > steps.end - 3; step--)
    arrive(kEmpty + step % 2);
  if (steps.end > steps.begin) load_values(steps.end - 1);
#pragma unroll 1
  for (int step = steps.end - 1; step >= steps.begin; step--) {
    const int buffer = step % 2;
    wait_copies<0>();
    meet(kFull + buffer);  // P and V are there, and all warps are through with the V before
    if (step > steps.begin) load_values(step - 1);
    if (block.needs(step)) {
      const int pair = block.thread() / 32;
      if (load_bits(block.shared + Places::moved + 4 * (buffer * kPairs + pair))) {
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          float factor[2];
          HF_UNROLL
          for (int h = 0; h < 2; h++) {
            const int row = block.warp_row() + 16 * i + 8 * h + lane / 4;
            factor[h] = load_float(block.shared + Places::factor + 4 * (buffer * kRows + row));
          }
          scale_rows(out[i], factor);
        }
      }
      unsigned seen = ~0u;
      if constexpr (kElementwise)
        seen = load_bits(block.shared + Places::seen + 4 * (buffer * kPairs + pair));
      const unsigned p = block.shared + Places::p + buffer * (4 * kRows * kPPitch) + p_rows,
                     v = block.shared + Places::v + buffer * (4 * kKeys * kValuePitch);
      if constexpr (kExact) {
        multiply_values_exactly(out, p + 4 * (lane / 4 * kPPitch), v + 4 * (lane % 4 * 4), seen);
      } else {
        // Read anew, it need not live over the loop, where it would spill. With 128 columns something
        // does anyway, and it costs 6% (measured on an H200).
        const int fresh = kValueDim == 128 ? lane : block.thread() % 32;
        multiply_values(out, p + 4 * (lane % 16 * kPPitch + lane / 16 * 4),
                        v + 4 * (fresh % 4 * kValuePitch + fresh / 4 * 2), seen);
      }
    }
    if (step - 2 >= steps.begin) arrive(kEmpty + buffer);
  }
  wait_copies<0>();
}

// True if anything of this lane is infinite or NaN.
HF_DEVICE bool has_nonfinite(const OutTile& out) {
  float zero = 0.0f;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) zero = fmaf(out[i][n], 0.0f, zero);
  }
  return !(zero == 0.0f);
}

// O / sum, and the log-sum-exp. `rows` is the first row of the warp in the block.
HF_DEVICE void store_result(const AttentionArgs& args, const Work& work, const OutTile& out,
                            unsigned shared, int rows, int fault) {
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int value_columns = min(value_dim - work.chunk * kValueDim, kValueDim);
  const int lane = threadIdx.x & 31;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int of_block = rows + 16 * i + 8 * h + lane / 4, query = work.row + of_block;
      const RowResult result =
          finish_row(args, work.head, load_float(shared + Places::reference + 4 * of_block),
                     load_float(shared + Places::sum + 4 * of_block), fault);
      if (query >= args.seq_q) continue;
      const ResultRow to = result_row<kValueDim>(args, work, query, value_dim);
      if (Spec::lse || Spec::split_keys) {
        if (to.lse && lane % 4 == 0 && work.chunk == 0) *to.lse = result.lse;
      }
      HF_UNROLL
      for (int m = 0; m < kPieces; m++) {
        const int column = 16 * m + lane % 4 * 4;
        float o[4];
        HF_UNROLL
        for (int e = 0; e < 4; e++)
          o[e] = out[i][8 * m + 4 * (e % 2) + 2 * h + e / 2] * result.factor;
        if (to.whole_pieces && column + 4 <= value_columns) {
          *(float4*)(to.values + column) = make_float4(o[0], o[1], o[2], o[3]);
        } else {
          HF_UNROLL
          for (int e = 0; e < 4; e++) {
            if (column + e < value_columns) to.values[column + e] = o[e];
          }
        }
      }
    }
  }
}

// The work of a block. `args` are those of the launch, or of one sequence of a ragged one;
// `sequence` is its number. False if the result has anything not finite and was not stored.
template <bool kExact>
HF_DEVICE bool attend(const AttentionArgs& launch, const AttentionArgs& args, const Work& work,
                      int sequence) {
  extern __shared__ __align__(128) unsigned char memory[];
  const unsigned shared = shared_address(memory);
  if (threadIdx.x == 0) {
    Work epilogue = work;
    if (Spec::ragged) epilogue.batch = sequence;
    keep_work(shared + Places::kept, epilogue);
  }
  barrier();
  const bool scores = threadIdx.x < kGroup;
  const int last_row = min(work.row + kRows, args.seq_q) - 1;
  Block block = {args, shared, steps_of(args, work.row, last_row, kKeys)};
  if constexpr (Spec::split_keys) take_share(block.steps, args, work.split, kKeys);
  if (scores) {
    score<kExact>(block);
    if (__syncthreads_or(false) && !kExact) return false;
    return true;
  }
  OutTile out;
  weigh<kExact>(block, out);
  // A sum that is not finite has made outputs of NaN.
  if (__syncthreads_or(has_nonfinite(out)) && !kExact) return false;
  finish_work(launch, args, shared + Places::kept,
              [&](const AttentionArgs& of, const Work& done, int fault) {
                store_result(of, done, out, shared, block.warp_row(), fault);
              });
  return true;
}

// Finds the work of a block and does it.
template <bool kExact>
HF_DEVICE bool attend_block(const AttentionArgs& args) {
  // Read anew each time, so that nothing that follows from it is kept from the first try to the
  // second.
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  const int value_dim = Spec::value_head_dim ? Spec::value_head_dim : args.value_head_dim;
  const int chunks = nvtf32_value_chunks(kRowTiles, value_dim);
  if constexpr (Spec::ragged) {
    Work work = ragged_work_of<kRows, false>(args, block, chunks);
    const int sequence = work.batch;
    int fault;
    const AttentionArgs one = arguments_of_sequence(args, sequence, fault);
    if (fault == kOffsetsFault && args.fault) *args.fault = fault;
    work.batch = 0;
    return work.row >= one.seq_q || attend<kExact>(args, one, work, sequence);
  } else {
    // This kernel is bound by arithmetic alone: with rows of different lengths the longest of all
    // heads come first.
    const int tiles = ceil_div(args.seq_q, kRows);
    const int together = Spec::window_right
                             ? args.batch * args.heads_q
                             : nv_heads_together(args, args.heads_q / args.heads_kv, tiles,
                                                 pieces_together(tiles, 1), 4);
    return attend<kExact>(args, args, work_of<kRows>(args, block, together, chunks), 0);
  }
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(2 * kGroup, Spec::blocks_per_sm)
    attention_forward(const __grid_constant__ AttentionArgs args) {
  if constexpr (Spec::split_keys) launch_next();
  if (!attend_block<false>(args)) attend_block<true>(args);
}
