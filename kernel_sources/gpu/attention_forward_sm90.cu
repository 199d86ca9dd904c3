// Attention on wgmma and TMA: f16 and bf16, head dimensions up to 256, sm_90a. What it does not
// take (see wgmma_takes() in src/plan/nv_plan.cpp) the sm_80 family does.
//
// One warp group copies: one of its threads asks the copy engine for boxes of Q, K and V and waits
// only for free buffers. query_groups warp groups compute 64 query rows each. A group issues Q.K of
// the next step together with P.V of this one, and its softmax runs while P.V is in flight; P stays
// in registers. Blocks stay and take pieces of work from a counter. The pipeline does not drain
// between pieces: while the last P.V of a piece runs the first Q.K of the next one is issued, and
// outputs are stored under it.
#include "gpu/tile/nv/cuda.h"

#include "common/mask.h"
#include "common/score.h"
#include "common/sequence.h"
#include "gpu/tiles_nv.h"

#include "gpu/tile/nv/accumulator_rows.h"
#include "gpu/tile/nv/schedule.h"

#include "gpu/tile/nv/ragged.h"

#include "gpu/tile/nv/wgmma_sm90.h"

namespace hipflash {

constexpr int kGroups = Spec::query_groups;
constexpr int kStages = Spec::stages, kQStages = Spec::q_stages;
constexpr int kKeys = Spec::tile_keys;
constexpr int kRows = 64 * kGroups;
constexpr int kThreads = 128 * (kGroups + 1);
constexpr int kSteps = round_up(Spec::head_dim, 16) / 16;  // products of 16 columns per score tile
constexpr int kValueDim = round_up(Spec::value_head_dim, 16);
constexpr int kSlabs = sm90_slabs(Spec::head_dim), kValueSlabs = sm90_slabs(Spec::value_head_dim);
constexpr int kQSlab = kRows * 128, kSlab = kKeys * 128;  // bytes
constexpr int kQBytes = kQSlab * kSlabs, kKBytes = kSlab * kSlabs, kVBytes = kSlab * kValueSlabs;
constexpr int kWarps = 4 * kGroups;  // that free a buffer
constexpr bool kTurns = Spec::take_turns && kGroups > 1;
// Registers per thread after the copying group gave most of its share away: their sum over the
// groups is at most what the launch gave, 168 for each of three groups, 128 for each of four.
// Finding the pieces of packed sequences takes some.
constexpr int kCopierRegisters = (kGroups == 3 ? 32 : 40) + (Spec::ragged ? 24 : 0),
              kComputeRegisters = sm90_compute_registers(kGroups, Spec::ragged);

}  // namespace hipflash

#include "gpu/tile/nv/pieces_sm90.h"

#include "gpu/tile/nv/copier_sm90.h"

namespace hipflash {

// One computing group.
struct Group {
  const AttentionArgs& args;
  const Layout& shared;
  const int group;
  const bool leader;      // arrives at barriers for its warp
  Ring<kQStages> q_ring;  // of the Q to be freed next; also counts pieces
  Ring<kStages> k_ring, v_ring;
  float s[kKeys / 2], out[kValueDim / 2];
  unsigned p[kKeys / 16][4];
  SoftmaxRows softmax[1];
  float factor[2];
  bool moved;
  const float scale;

  HF_DEVICE Group(const AttentionArgs& a, const Layout& l, int g)
      : args(a),
        shared(l),
        group(g),
        leader((threadIdx.x & 31) == 0),
        q_ring{0},
        k_ring{0},
        v_ring{0},
        moved(false),
        scale(exponent_scale(a)) {}

  HF_DEVICE void clear() {
    softmax[0].clear();
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) out[n] = 0.0f;
  }
  // Read again where it is needed: registers are what this kernel is short of.
  HF_DEVICE Piece piece_at(unsigned count) const { return shared.get(count); }
  HF_DEVICE decltype(auto) args_at(unsigned count) const {
    return args_of_piece(args, shared, count);
  }
  HF_DEVICE LaneRows rows(const Piece& piece) const {
    const int row = piece.row + group * 64 + (threadIdx.x / 32 & 3) * 16 + (threadIdx.x & 31) / 4;
    return {{row, row + 8}, {piece.head, piece.head}};
  }
  // The steps that this group's rows need, of those that the block does.
  HF_DEVICE Steps own_steps(unsigned count) const {
    const Piece piece = piece_at(count);
    const AttentionArgs& one = args_at(count);
    const int row = piece.row + group * 64;
    if (row < one.seq_q) {
      const Steps own = steps_of_rows(one, row, 64);
      if (own.end > own.begin) return own;
    }
    const int begin = steps_of_rows(one, piece.row, kRows).begin;
    return {begin, begin, begin, begin};
  }

  // Waits for the next piece and its Q. False if there is none.
  HF_DEVICE bool wait_piece() const {
    shared.q_full(q_ring.stage()).wait(q_ring.parity());
    return piece_at(q_ring.count).row >= 0;
  }
  HF_DEVICE void free_queries() {
    if (leader) shared.q_free(q_ring.stage()).arrive();
    q_ring.advance();
  }
  HF_DEVICE void free_keys() {
    if (leader) shared.k_free(k_ring.stage()).arrive();
    k_ring.advance();
  }
  HF_DEVICE void free_values() {
    if (leader) shared.v_free(v_ring.stage()).arrive();
    v_ring.advance();
  }
  HF_DEVICE void wait_keys() const { shared.k_full(k_ring.stage()).wait(k_ring.parity()); }
  HF_DEVICE void wait_values() const { shared.v_full(v_ring.stage()).wait(v_ring.parity()); }
  HF_DEVICE void take_turn() {
    if (kTurns) wait_turn(group);
  }
  HF_DEVICE void pass_turn() {
    if (kTurns) give_turn(group + 1 == kGroups ? 0 : group + 1);
  }

  HF_DEVICE void issue_scores() {
    const Operand q(shared.q + q_ring.stage() * kQBytes + group * 8192, 16);
    const Operand k(shared.k + k_ring.stage() * kKBytes, 16);
    HF_UNROLL
    for (int c = 0; c < kSteps; c++) {
      Wgmma<kKeys>::scores(s, q.at(c / 4 * kQSlab + c % 4 * 32), k.at(c / 4 * kSlab + c % 4 * 32),
                           c > 0);
    }
    products_issued();
  }
  HF_DEVICE void issue_outputs() {
    const Operand v(shared.v + v_ring.stage() * kVBytes, kSlab);
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) Wgmma<kValueDim>::outputs(out, p[n], v.at(n * 2048));
    products_issued();
  }

  // Scores become probabilities, in place; `factor` is what the outputs must be multiplied by if
  // `moved`.
  HF_DEVICE void soften(unsigned count, const Steps& own, int step) {
    const int key = step * kKeys + 2 * (threadIdx.x & 3);
    if (step >= own.unmasked_end || (Spec::window_left && step < own.unmasked_begin)) {
      const Piece piece = piece_at(count);
      modify_scores<true>(args_at(count), s, rows(piece), piece.batch, key);
    } else if constexpr (kScoreModified) {
      const Piece piece = piece_at(count);
      modify_scores<false>(args_at(count), s, rows(piece), piece.batch, key);
    }
    float largest[1][2];
    row_max(s, scale, largest[0]);
    moved = must_move(softmax, largest);
    if (moved) move_reference(softmax[0], largest[0], factor);
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const float reference = finite_reference<true>(softmax[0].reference[h]);
      float even = 0.0f, odd = 0.0f;
      HF_UNROLL
      for (int n = 0; n < kKeys / 8; n++) {
        float& a = s[4 * n + 2 * h];
        float& b = s[4 * n + 2 * h + 1];
        a = exp2_fast(fmaf(a, scale, -reference));
        b = exp2_fast(fmaf(b, scale, -reference));
        even += a;
        odd += b;
      }
      softmax[0].sum[h] += even + odd;
    }
  }
  HF_DEVICE void probabilities_to_operand() {
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      HF_UNROLL
      for (int e = 0; e < 4; e++) p[n][e] = pack(s[8 * n + 2 * e], s[8 * n + 2 * e + 1]);
    }
  }

  // A step that other groups of the block need and this one does not.
  HF_DEVICE void skip_keys() {
    wait_keys();
    __syncwarp();  // all lanes have seen them arrive
    take_turn();
    pass_turn();
    free_keys();
  }
  HF_DEVICE void skip_values() {
    wait_values();
    __syncwarp();
    free_values();
  }
  HF_DEVICE void skip_steps(int count) {
#pragma unroll 1
    for (; count > 0; count--) {
      skip_keys();
      skip_values();
    }
  }

  // Keys past those that a sequence sees are another's, who may have NaN there, and zero times NaN
  // is NaN: their values become zeros. (TMA does that past the end of the tensors.) Only the last
  // step of a block has such keys. Every group that uses it writes the same zeros, whatever its
  // rows, so they may do so while others' products read it, and each makes its own writes known to
  // its own products, and to the copy that follows in that place. A window with a left edge would
  // have keys of nobody in its first step too.
  HF_DEVICE void blank_values(unsigned count, int step) {
    if constexpr (Spec::ragged) {
      const AttentionArgs& one = args_at(count);
      const int seen = max(visible_keys(one, one.seq_q - 1).end - step * kKeys, 0);
      if (seen >= kKeys) return;
      constexpr int kChunks = 8 * kValueSlabs;  // of 16 bytes in a row
      const unsigned v = shared.v + v_ring.stage() * kVBytes;
      for (int i = threadIdx.x & 127; i < (kKeys - seen) * kChunks; i += 128) {
        const int row = seen + i / kChunks, chunk = i % kChunks;
        store_words(v + chunk / 8 * kSlab + row * 128 + chunk % 8 * 16, 0, 0, 0, 0);
      }
      publish_writes();
      barrier_of<128>(kGroups + 1 + group);
    }
  }

  HF_DEVICE void store(unsigned count) {
    const Piece piece = piece_at(count);
    const AttentionArgs& one = args_at(count);
    int first = 0, fault = kNoFault;
    if constexpr (Spec::ragged) {
      const Sequence of_piece = shared.get_sequence(count);
      first = of_piece.first_query;
      fault = of_piece.fault;
    }
    const int batch = Spec::ragged ? 0 : piece.batch;
    const LaneRows lane = rows(piece);
    float inverse[2];
    char* row[2];
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int query = lane.query[h];
      const bool exists = query < one.seq_q;
      const RowResult result =
          finish_row(args, piece.head, softmax[0].reference[h], quad_sum(softmax[0].sum[h]), fault);
      inverse[h] = result.factor;
      row[h] = nullptr;
      if (exists) {
        row[h] = (char*)args.out +
                 2 * (batch * args.out_stride.batch + piece.head * args.out_stride.head +
                      (first + query) * args.out_stride.seq);
      }
      if (Spec::lse && args.lse && exists && (threadIdx.x & 3) == 0) {
        args.lse[batch * args.lse_stride.batch + piece.head * args.lse_stride.head +
                 (first + query) * args.lse_stride.seq] = result.lse;
      }
    }
    store_rows_aligned(out, inverse, row, Spec::value_head_dim);
  }

  // The first scores of a piece into probabilities, Q.K having been issued.
  HF_DEVICE void first_step_end(unsigned count, const Steps& own) {
    wait_products<0>();
    pin(s);
    free_keys();
    if (own.end - 1 == own.begin) free_queries();
    soften(count, own, own.end - 1);
    probabilities_to_operand();
  }

  // The rest of a piece, but for its last P.V.
  HF_DEVICE void middle_steps(unsigned count, const Steps& own) {
#pragma unroll 1
    for (int step = own.end - 2; step >= own.begin; step--) {
      if (Spec::ragged && step + 2 == own.end) {
        wait_values();
        blank_values(count, step + 1);
      }
      wait_keys();
      take_turn();
      pin(out);
      products_start();
      issue_scores();
      wait_values();
      issue_outputs();
      pass_turn();
      wait_products<1>();
      pin(s);
      free_keys();
      if (step == own.begin) free_queries();
      soften(count, own, step);
      wait_products<0>();
      pin(out);
      free_values();
      probabilities_to_operand();
      if (moved) scale_rows(out, factor);
    }
  }

  // The steps of the block that lie before this group's first, or after its last.
  HF_DEVICE int skipped_before(unsigned count, const Steps& own) const {
    return steps_of_rows(args_at(count), piece_at(count).row, kRows).end - own.end;
  }
  HF_DEVICE int skipped_after(unsigned count, const Steps& own) const {
    // The load is made without windows too: otherwise ptxas takes scratch at d256.
    const int begin = steps_of_rows(args_at(count), piece_at(count).row, kRows).begin;
    return Spec::window_left ? own.begin - begin : 0;
  }

  HF_DEVICE void run() {
    if (kTurns && group == kGroups - 1) give_turn(0);
    bool more = true;
#pragma unroll 1
    while (more) {  // the pipeline is empty
      unsigned count = q_ring.count;
      if (!wait_piece()) break;
      Steps own = own_steps(count);
      clear();
      skip_steps(skipped_before(count, own));
      if (own.end <= own.begin) {
        __syncwarp();  // all lanes have seen it arrive
        free_queries();
        store(count);
        continue;
      }
      wait_keys();
      take_turn();
      products_start();
      issue_scores();
      pass_turn();
      first_step_end(count, own);

      bool flowing = true;
#pragma unroll 1
      while (flowing) {
        middle_steps(count, own);
        wait_values();
        if (own.begin + 1 == own.end) blank_values(count, own.begin);
        pin(out);
        products_start();
        issue_outputs();

        int skipped = skipped_after(count, own);
        Steps next_own = {0, 0, 0, 0};
        // With one buffer the next Q comes after all steps of the block, for which a group without
        // rows needs the turns of this one; with two, before the last two steps.
        if (!Spec::window_left || skipped < kQStages) {
          more = wait_piece();
          if (more) {
            next_own = own_steps(count + 1);
            skipped += skipped_before(count + 1, next_own);
          }
        }
        // Keys can be had one step beyond the next without giving back the values in use.
        flowing = next_own.end > next_own.begin && skipped <= 1;
        if (flowing) {
          if (skipped) skip_keys();
          wait_keys();
          take_turn();
          products_start();
          issue_scores();
          pass_turn();
          wait_products<1>();
          pin(out);
          free_values();
          store(count);
          clear();
          count++;
          own = next_own;
          if (skipped) skip_values();
          first_step_end(count, own);
        } else {
          wait_products<0>();
          pin(out);
          free_values();
          store(count);
          skip_steps(skipped_after(count, own));
        }
      }
    }
    if (kTurns && group == 0) wait_turn(0);  // takes the last group's last turn
  }
};

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention_forward(const __grid_constant__ AttentionArgs args,
                      const __grid_constant__ TensorMap q_map,
                      const __grid_constant__ TensorMap k_map,
                      const __grid_constant__ TensorMap v_map) {
  HF_SHARED_BYTES(memory);
  const Layout shared(memory);
  if (threadIdx.x == 0) {
    prefetch_map(q_map);
    prefetch_map(k_map);
    prefetch_map(v_map);
    for (int i = 0; i < kQStages; i++) {
      shared.q_full(i).create(1);
      shared.q_free(i).create(kWarps);
    }
    for (int i = 0; i < kStages; i++) {
      shared.k_full(i).create(1);
      shared.v_full(i).create(1);
      shared.k_free(i).create(kWarps);
      shared.v_free(i).create(kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<kCopierRegisters>();
    if (threadIdx.x == 0) {
      Copier copier(args, shared, q_map, k_map, v_map);
      copier.run();
    }
  } else {
    take_registers<kComputeRegisters>();
    // The shuffle tells the compiler that all lanes hold the same.
    Group group(args, shared, __shfl_sync(~0u, threadIdx.x / 128, 0) - 1);
    group.run();
  }
}
