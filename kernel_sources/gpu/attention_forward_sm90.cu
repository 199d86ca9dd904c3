// Attention on wgmma and TMA: f16 and bf16, head dimensions up to 256, sm_90a. What it does not take
// (see sm90_takes() in tiles_nv.h) the sm_80 family does.
//
// One warp group copies: one of its threads asks the copy engine for boxes of Q, K and V and waits only
// for free buffers. query_groups warp groups compute 64 query rows each. A group issues Q.K of the
// next step together with P.V of this one, and its softmax runs while P.V is in flight; P stays in
// registers. Blocks stay and take pieces of work from a counter, so that the copies of the next piece
// run during the epilogue of this one.
#include "gpu/tile/cuda.h"
#include "common/mask.h"
#include "common/score.h"
#include "gpu/tiles_nv.h"
#include "gpu/tile/accumulator_rows.h"
#include "gpu/tile/schedule_nv.h"
#include "gpu/tile/wgmma_sm90.h"

namespace hipflash {

constexpr int kGroups = Spec::query_groups;
constexpr int kStages = Spec::stages;
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
// Registers per thread after the copying group gave most of its share away. Their sum over the groups
// is what the launch gave: 168 for each of three groups, 128 for each of four.
constexpr int kCopierRegisters = kGroups == 3 ? 32 : 40, kComputeRegisters = kGroups == 3 ? 160 : 232;

// Shared memory: Q, the rings of K and V, barriers, and the number of the piece being done.
struct Layout {
  unsigned q, k, v, barriers;

  HF_DEVICE explicit Layout(const void* shared) {
    q = (shared_address(shared) + 1023) & ~1023u;  // the swizzle repeats every 1024 bytes
    k = q + kQBytes;
    v = k + kStages * kKBytes;
    barriers = v + kStages * kVBytes;
  }
  HF_DEVICE Barrier at(int i) const { return {barriers + 8 * i}; }
  HF_DEVICE Barrier q_full() const { return at(0); }
  HF_DEVICE Barrier q_free() const { return at(1); }
  HF_DEVICE unsigned piece() const { return barriers + 16; }
  HF_DEVICE Barrier k_full(int stage) const { return at(3 + stage); }
  HF_DEVICE Barrier k_free(int stage) const { return at(3 + kStages + stage); }
  HF_DEVICE Barrier v_full(int stage) const { return at(3 + 2 * kStages + stage); }
  HF_DEVICE Barrier v_free(int stage) const { return at(3 + 3 * kStages + stage); }
};

struct Schedule {
  const AttentionArgs& args;
  int pieces, together;

  HF_DEVICE explicit Schedule(const AttentionArgs& a) : args(a) {
    pieces = (a.seq_q + kRows - 1) / kRows * a.batch * a.heads_q;
    together = nv_heads_together(a, a.heads_q / a.heads_kv, 2);
  }
  HF_DEVICE Work piece(int index) const { return work_of<kRows, false>(args, index, together); }
  HF_DEVICE Steps steps(int row, int rows) const {
    return steps_of(args, row, min(row + rows, args.seq_q) - 1, kKeys);
  }
};

// The copying thread.
HF_DEVICE void copy_pieces(const AttentionArgs& args, const Layout& shared, const Schedule& schedule,
                           const TensorMap& q_map, const TensorMap& k_map, const TensorMap& v_map) {
  const int first_key = Spec::window_left ? nv_keys_of_call(args).first : 0;  // where the maps of K and V begin
  Ring<kStages> ring = {0, 1};
  int q_parity = 1;
  for (int index = blockIdx.x;; q_parity ^= 1) {
    shared.q_free().wait(q_parity);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared.piece()), "r"(index) : "memory");
    if (index >= schedule.pieces) {
      shared.q_full().arrive();
      return;
    }
    const Work work = schedule.piece(index);
    const Steps steps = schedule.steps(work.row, kRows);
    shared.q_full().expect(kQBytes);
    for (int c = 0; c < kSlabs; c++) {
      copy_box(shared.q + c * kQSlab, q_map, 64 * c, work.row, work.head, work.batch, shared.q_full());
    }
    for (int step = steps.end - 1; step >= steps.begin; step--) {
      const int key = step * kKeys - first_key, stage = ring.stage;
      shared.k_free(stage).wait(ring.parity);
      shared.k_full(stage).expect(kKBytes);
      for (int c = 0; c < kSlabs; c++) {
        copy_box(shared.k + stage * kKBytes + c * kSlab, k_map, 64 * c, key, work.kv_head, work.batch,
                 shared.k_full(stage));
      }
      shared.v_free(stage).wait(ring.parity);
      shared.v_full(stage).expect(kVBytes);
      for (int c = 0; c < kValueSlabs; c++) {
        copy_box(shared.v + stage * kVBytes + c * kSlab, v_map, 64 * c, key, work.kv_head, work.batch,
                 shared.v_full(stage));
      }
      ring.advance();
    }
    // The next piece is claimed only now, so that a block with a heavy piece does not hold a claim on
    // another. Exactly `pieces` claims are made, and the last one leaves the counter zero.
    if (args.counter) {
      const int claim = atomicAdd(args.counter, 1);
      if (claim == schedule.pieces - 1) *args.counter = 0;
      index = claim + gridDim.x;
    } else {
      index += gridDim.x;
    }
  }
}

// One computing group's state.
struct Group {
  const AttentionArgs& args;
  const Layout& shared;
  const int group;
  const bool leader;  // arrives at barriers for its warp
  Ring<kStages> k_ring, v_ring;
  LaneRows rows;
  int batch;
  float s[kKeys / 2], out[kValueDim / 2];
  unsigned p[kKeys / 16][4];
  SoftmaxRows softmax[1];
  float factor[2];
  bool moved;
  const float scale;

  HF_DEVICE Group(const AttentionArgs& a, const Layout& l, int g)
      : args(a), shared(l), group(g), leader((threadIdx.x & 31) == 0), k_ring{0, 0}, v_ring{0, 0},
        moved(false), scale(exponent_scale(a)) {
    factor[0] = factor[1] = 1.0f;
  }

  HF_DEVICE void issue_scores() {
    HF_UNROLL
    for (int c = 0; c < kSteps; c++) {
      const unsigned q = shared.q + c / 4 * kQSlab + group * 8192 + c % 4 * 32;
      const unsigned k = shared.k + k_ring.stage * kKBytes + c / 4 * kSlab + c % 4 * 32;
      Wgmma<kKeys>::scores(s, operand(q, 16), operand(k, 16), c > 0);
    }
    products_issued();
  }
  HF_DEVICE void issue_outputs() {
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      Wgmma<kValueDim>::outputs(out, p[n], operand(shared.v + v_ring.stage * kVBytes + n * 2048, kSlab));
    }
    products_issued();
  }
  HF_DEVICE void free_keys(bool last) {
    if (leader) {
      shared.k_free(k_ring.stage).arrive();
      if (last) shared.q_free().arrive();
    }
    k_ring.advance();
  }
  HF_DEVICE void free_values() {
    if (leader) shared.v_free(v_ring.stage).arrive();
    v_ring.advance();
  }

  // Scores become probabilities, in place; `factor` is what the outputs must be multiplied by if
  // `moved`.
  HF_DEVICE void soften(int step, bool masked) {
    const int key = step * kKeys + 2 * (threadIdx.x & 3);
    if (masked) {
      modify_scores<true>(args, s, rows, batch, key);
    } else if constexpr (kScoreModified) {
      modify_scores<false>(args, s, rows, batch, key);
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
  HF_DEVICE void skip_step() {
    shared.k_full(k_ring.stage).wait(k_ring.parity);
    if (kTurns) {
      wait_turn(group);
      give_turn(group + 1 == kGroups ? 0 : group + 1);
    }
    free_keys(false);
    shared.v_full(v_ring.stage).wait(v_ring.parity);
    free_values();
  }

  // All steps from own.end - 1 down to own.begin.
  HF_DEVICE void attend(const Steps& own) {
    const int next_group = group + 1 == kGroups ? 0 : group + 1;
    const auto masked = [&](int step) {
      return step >= own.unmasked_end || (Spec::window_left && step < own.unmasked_begin);
    };
    int step = own.end - 1;
    shared.k_full(k_ring.stage).wait(k_ring.parity);
    if (kTurns) wait_turn(group);
    products_start();
    issue_scores();
    if (kTurns) give_turn(next_group);
    wait_products<0>();
    pin(s);
    free_keys(step == own.begin);
    soften(step, masked(step));
    probabilities_to_operand();
#pragma unroll 1
    for (step--; step >= own.begin; step--) {
      shared.k_full(k_ring.stage).wait(k_ring.parity);
      if (kTurns) wait_turn(group);
      pin(out);
      products_start();
      issue_scores();
      shared.v_full(v_ring.stage).wait(v_ring.parity);
      issue_outputs();
      if (kTurns) give_turn(next_group);
      wait_products<1>();
      pin(s);
      free_keys(step == own.begin);
      soften(step, masked(step));
      wait_products<0>();
      pin(out);
      free_values();
      probabilities_to_operand();
      if (moved) scale_rows(out, factor);
    }
    shared.v_full(v_ring.stage).wait(v_ring.parity);
    pin(out);
    products_start();
    issue_outputs();
    wait_products<0>();
    pin(out);
    free_values();
  }

  HF_DEVICE void store(const Work& work) {
    float inverse[2];
    char* row[2];
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const int query = rows.query[h];
      const bool exists = query < args.seq_q;
      const float sum = quad_sum(softmax[0].sum[h]);
      inverse[h] = inverse_sum(sum);
      row[h] = nullptr;
      if (exists) {
        row[h] = (char*)args.out + 2 * (work.batch * args.out_stride.batch + work.head * args.out_stride.head +
                                        query * args.out_stride.seq);
      }
      if (Spec::lse && args.lse && exists && (threadIdx.x & 3) == 0) {
        args.lse[work.batch * args.lse_stride.batch + work.head * args.lse_stride.head +
                 query * args.lse_stride.seq] = log_sum_exp(softmax[0].reference[h], sum);
      }
    }
    store_rows_aligned(out, inverse, row, Spec::value_head_dim);
  }
};

HF_DEVICE void compute_pieces(const AttentionArgs& args, const Layout& shared, const Schedule& schedule, int g) {
  Group group(args, shared, g);
  const int row_in_tile = g * 64 + (threadIdx.x / 32 & 3) * 16 + (threadIdx.x & 31) / 4;
  int q_parity = 0;
  if (kTurns && g == kGroups - 1) give_turn(0);
#pragma unroll 1
  for (;; q_parity ^= 1) {
    shared.q_full().wait(q_parity);
    int index;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(index) : "r"(shared.piece()) : "memory");
    __syncwarp();  // every lane has read it before the warp's leader frees Q
    if (index >= schedule.pieces) break;

    const Work work = schedule.piece(index);
    const Steps all = schedule.steps(work.row, kRows);
    Steps own = {all.begin, all.begin, all.begin, all.begin};
    if (work.row + g * 64 < args.seq_q) own = schedule.steps(work.row + g * 64, 64);
    if (own.end <= own.begin) own.begin = own.end = all.begin;

    group.batch = work.batch;
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      group.rows.query[h] = work.row + row_in_tile + 8 * h;
      group.rows.head[h] = work.head;
    }
    group.softmax[0].clear();
    HF_UNROLL
    for (int n = 0; n < kValueDim / 2; n++) group.out[n] = 0.0f;

#pragma unroll 1
    for (int step = all.end; step > own.end; step--) group.skip_step();
    if (own.end > own.begin) {
      group.attend(own);
    } else if (group.leader) {
      shared.q_free().arrive();
    }
#pragma unroll 1
    for (int step = own.begin; step > all.begin; step--) group.skip_step();
    group.store(work);
  }
  if (kTurns && g == 0) wait_turn(0);  // takes the last group's last turn
}

}  // namespace hipflash

using namespace hipflash;

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention_forward(const __grid_constant__ AttentionArgs args, const __grid_constant__ TensorMap q_map,
                      const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map) {
  extern __shared__ unsigned char memory[];
  const Layout shared(memory);
  const Schedule schedule(args);
  if (threadIdx.x == 0) {
    shared.q_full().create(1);
    shared.q_free().create(kWarps);
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
    if (threadIdx.x == 0) copy_pieces(args, shared, schedule, q_map, k_map, v_map);
  } else {
    take_registers<kComputeRegisters>();
    compute_pieces(args, shared, schedule, threadIdx.x / 128 - 1);
  }
}
