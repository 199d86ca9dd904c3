// Launch facts of the NVIDIA families: tile configs with sound defaults, block and grid sizes,
// shared memory, tensor maps, and which problems the wgmma family takes.
//
// Part of the kernel text and also compiled into the library, so that launcher and kernel agree by
// construction. It includes nothing; whoever includes it has included common/attention_args.h.
#pragma once

#if defined(__CUDACC__)
#define HF_BOTH __host__ __device__ __forceinline__
#else
#define HF_BOTH inline
#endif

namespace hipflash {

HF_BOTH constexpr int nv_round_up(int x, int step) {
  return (x + step - 1) / step * step;
}
HF_BOTH constexpr int nv_max(int x, int y) {
  return x > y ? x : y;
}

HF_BOTH constexpr int nv_max_head_dim() {
  return 512;
}

// Blocks of accumulators are at most 256 columns wide. Wider values are done in chunks, each by a
// block of its own that computes the scores again.
HF_BOTH constexpr int nv_value_chunks(int value_head_dim) {
  return value_head_dim > 256 ? 2 : 1;
}
HF_BOTH constexpr int nv_value_chunk(int value_head_dim) {
  const int chunks = nv_value_chunks(value_head_dim);
  return nv_round_up((value_head_dim + chunks - 1) / chunks, 16);
}

// Query heads that run together: within such a group the heads alternate fastest and the longest
// rows come first. A group holds about `pieces` pieces of work, so that long and short rows even
// out over the multiprocessors, but no more keys and values than half an L2 cache holds. More, up
// to the next power of two, if that divides all heads: a small group at the end would leave
// multiprocessors without work. Counted in heads (in K/V heads where rows pack a group of heads).
HF_BOTH int nv_heads_together(const AttentionArgs& args, int heads_per_kv, int tiles, int pieces,
                              int element_bytes) {
  const long long bytes =
      (long long)args.seq_k * (args.head_dim + args.value_head_dim) * element_bytes;
  const long long fitting = (16ll << 20) / (bytes > 0 ? bytes : 1);
  const int per_kv = nv_max(tiles * heads_per_kv, 1);
  const int wanted = (pieces + per_kv - 1) / per_kv;
  const int together = (int)(fitting < 1 ? 1 : fitting > wanted ? wanted : fitting);
  int even = 1;
  while (even < together) even *= 2;
  const bool divides = args.batch * (args.heads_q / heads_per_kv) % even == 0;
  return (divides && even <= fitting ? even : together) * heads_per_kv;
}

// More shared memory of mma.sync and of f32 multiply-adds when keys are in pages: where the rows of
// two steps are.
HF_BOTH constexpr int nv_paged_bytes(int tile_keys) {
  return 2 * tile_keys * 16;
}

// attention_merge of the families below: threads of a block; warps that share a row, a power of two
// and always the same where a row must not depend on its batch; blocks.
HF_BOTH constexpr int nv_merge_threads() {
  return 256;
}
HF_BOTH constexpr int nv_merge_warps(const AttentionArgs& args) {
  const int most = nv_merge_threads() / 32;
  if (args.keys_per_split > 0) return most;
  int warps = 1;
  while (warps < most && 4 * warps < args.splits) warps *= 2;
  return warps;
}
HF_BOTH constexpr long long nv_merge_blocks(const AttentionArgs& args) {
  const int rows = nv_merge_threads() / 32 / nv_merge_warps(args);
  return ((long long)args.partial_batch * args.heads_q * args.partial_seq + rows - 1) / rows;
}

// ---------------------------------------------------------------- attention_forward_sm80.cu

// mma.sync, any NVIDIA GPU from sm_80 on, f16 and bf16, every feature.
// The fields are entries of Spec, by these names.
struct Sm80Tile {
  int tile_keys;      // keys per step, a multiple of 16
  int waves;          // warps that share the rows of a block
  int row_tiles;      // 16-row tiles per warp
  int stages;         // buffers of keys and values; 1: keys load under P.V, values under Q.K
  int blocks_per_sm;  // blocks per multiprocessor that registers are divided for
  bool q_in_registers;
  bool pack_heads;  // rows are (query, head of the group): for few queries and shared K/V heads
  int key_parts;    // parts of a block, each `waves` warps, that share its keys; 1 if heads are not
                    // packed. They are the second dimension of the block's threads.
};

HF_BOTH constexpr int sm80_tile_rows(const Sm80Tile& t) {
  return t.waves * t.row_tiles * 16;
}
HF_BOTH constexpr int sm80_threads(const Sm80Tile& t) {
  return t.waves * 32 * t.key_parts;
}
// Of one part of the keys; each has buffers of its own.
HF_BOTH constexpr int sm80_part_bytes(const Sm80Tile& t, int head_dim, int value_head_dim,
                                      bool paged) {
  const int bytes =
      2 * (sm80_tile_rows(t) * nv_round_up(head_dim, 16) +
           t.stages * t.tile_keys * (nv_round_up(head_dim, 16) + nv_value_chunk(value_head_dim))) +
      32 +  // what the epilogue needs
      (paged ? nv_paged_bytes(t.tile_keys) : 0);
  return t.key_parts > 1 ? nv_round_up(bytes, 128) : bytes;
}
HF_BOTH constexpr int sm80_shared_bytes(const Sm80Tile& t, int head_dim, int value_head_dim,
                                        bool paged) {
  return t.key_parts * sm80_part_bytes(t, head_dim, value_head_dim, paged);
}

// The default for a head dimension: none of these keeps anything in local memory. `modified`:
// softcap, ALiBi, bias, mask, unaligned rows or whatever else needs registers; `left_edge`: a
// window whose left side is bounded, likewise. Widths of 97 to 112 spill with 64 keys. `seq_k`: the
// most keys that the queries of a sequence see. `shared_limit` is the device's shared memory per
// block (opt-in).
HF_BOTH constexpr Sm80Tile sm80_default(int head_dim, int value_head_dim, bool modified,
                                        bool left_edge, int seq_k, int shared_limit) {
  const int widest = nv_max(head_dim, value_head_dim);
  if (widest <= 128 && modified) return {64, 4, 1, 2, 2, false, false, 1};
  if (widest <= 64 && seq_k <= 1024 && !left_edge) return {32, 4, 2, 2, 3, false, false, 1};
  if (widest <= 64) return {64, 4, 2, 2, 2, true, false, 1};
  if (widest <= 128) {
    const Sm80Tile wide = {64, 4, 2, 2, 2, false, false, 1};
    const bool fits = 2 * sm80_shared_bytes(wide, head_dim, value_head_dim, false) <= shared_limit;
    if (fits && !left_edge && (widest <= 96 || widest > 112)) return wide;
    return {left_edge ? 32 : 48, 4, 2, 2, 2, false, false, 1};
  }
  if (widest <= 256 && modified) return {32, 4, 1, 1, 2, false, false, 1};
  if (widest <= 192) return {shared_limit > 150 * 1024 ? 48 : 32, 4, 1, 1, 2, false, false, 1};
  if (widest <= 256) return {shared_limit > 150 * 1024 ? 64 : 32, 4, 1, 1, 2, false, false, 1};
  if (shared_limit > 115 * 1024) return {32, 4, 1, 1, 1, false, false, 1};
  return {32, 2, 1, 1, 1, false, false, 1};
}

// ---------------------------------------------------------------- attention_forward_nvf32.cu

// f32 by fused multiply-adds, any NVIDIA GPU, every feature. A warp has 32 rows.
struct NvF32Tile {
  int tile_keys;      // a multiple of 8, at most 64
  int waves;          // warps per block
  int blocks_per_sm;  // blocks per multiprocessor that registers are divided for
  bool
      p_over_keys;  // probabilities take the place of the keys: less shared memory, no copies ahead
};

HF_BOTH constexpr int nvf32_value_chunks(int value_head_dim) {
  return (value_head_dim + 127) / 128;
}
HF_BOTH constexpr int nvf32_value_chunk(int value_head_dim) {
  const int chunks = nvf32_value_chunks(value_head_dim);
  return nv_round_up((value_head_dim + chunks - 1) / chunks, 32);
}
HF_BOTH constexpr int nvf32_threads(const NvF32Tile& t) {
  return t.waves * 32;
}
HF_BOTH constexpr int nvf32_shared_bytes(const NvF32Tile& t, int head_dim, int value_head_dim) {
  const int rows = t.waves * 32, pitch = nv_round_up(head_dim, 8) + 4;
  const int keys = t.tile_keys * pitch, p = rows * (t.tile_keys + 8);
  return 4 * (rows * pitch + (t.p_over_keys ? nv_max(keys, p) : keys + p) +
              t.tile_keys * nvf32_value_chunk(value_head_dim)) +
         32;  // what the epilogue needs
}
// `modified`: softcap, ALiBi, bias or mask, which need the registers of half the keys.
HF_BOTH constexpr NvF32Tile nvf32_default(int head_dim, int value_head_dim, bool modified,
                                          int shared_limit) {
  const NvF32Tile two_blocks = modified ? NvF32Tile{16, 4, 2, false} : NvF32Tile{32, 4, 2, true};
  const NvF32Tile tiles[] = {{64, 4, 2, false}, two_blocks,        {32, 4, 1, false},
                             {16, 4, 1, false}, {16, 2, 1, false}, {8, 2, 1, false},
                             {8, 1, 1, false}};
  const int widest = nv_max(head_dim, value_head_dim);
  for (int i = widest <= 64 ? 0 : 1; i < 6; i++) {
    const int bytes =
        nvf32_shared_bytes(tiles[i], head_dim, value_head_dim) + nv_paged_bytes(tiles[i].tile_keys);
    if (bytes * tiles[i].blocks_per_sm <= shared_limit) return tiles[i];
  }
  return tiles[6];
}

// ---------------------------------------------------------------- attention_forward_nvf16x3.cu

// f32 on f16 matrix units, three products for one, sm_80 and up, every feature.
struct NvF16x3Tile {
  int tile_keys;      // keys per step, a multiple of 16
  int waves;          // warps per block
  int row_tiles;      // 16-row tiles per warp
  int stages;         // buffers of keys and values; 1: keys load under P.V, values under Q.K
  int blocks_per_sm;  // blocks per multiprocessor that registers are divided for
};

HF_BOTH constexpr int nvf16x3_tile_rows(const NvF16x3Tile& t) {
  return t.waves * t.row_tiles * 16;
}
HF_BOTH constexpr int nvf16x3_threads(const NvF16x3Tile& t) {
  return t.waves * 32;
}
// Accumulators take at most 128 registers.
HF_BOTH constexpr int nvf16x3_value_chunks(int row_tiles, int value_head_dim) {
  const int most = 256 / row_tiles;
  return (value_head_dim + most - 1) / most;
}
HF_BOTH constexpr int nvf16x3_value_chunk(int row_tiles, int value_head_dim) {
  const int chunks = nvf16x3_value_chunks(row_tiles, value_head_dim);
  return nv_round_up((value_head_dim + chunks - 1) / chunks, 16);
}
HF_BOTH constexpr int nvf16x3_shared_bytes(const NvF16x3Tile& t, int head_dim, int value_head_dim) {
  // Rows of 4 bytes a number and 16 more, and a factor for each.
  const int row = 4 * nv_round_up(head_dim, 16) + 20;
  const int value_row = 4 * nvf16x3_value_chunk(t.row_tiles, value_head_dim) + 20;
  return nvf16x3_tile_rows(t) * row + t.stages * t.tile_keys * (row + value_row) +
         16 * t.row_tiles * nvf16x3_threads(t) +  // the softmax state
         32;                                      // what the epilogue needs
}

// The default for a head dimension; more shared memory than `shared_limit` if none fits. None keeps
// anything in local memory. `crowded`: rows that start anywhere, or modified scores of keys in
// pages, which need registers. `high`: so many rows that tiles of 256 are worth their waste.
HF_BOTH constexpr NvF16x3Tile nvf16x3_default(int head_dim, int value_head_dim, bool crowded,
                                              bool high, int shared_limit) {
  const NvF16x3Tile tiles[] = {{64, 4, 2, 2, 2}, {32, 4, 2, 2, 2}, {32, 8, 2, 2, 1},
                               {32, 4, 2, 1, 2}, {32, 4, 1, 1, 2}, {32, 8, 1, 2, 1},
                               {32, 8, 1, 1, 1}, {32, 4, 1, 1, 1}, {16, 8, 1, 1, 1},
                               {16, 4, 1, 1, 1}, {16, 2, 1, 1, 1}};
  const int widest = nv_max(head_dim, value_head_dim);
  if (widest <= 32 && high && shared_limit > 150 * 1024) return {32, 8, 2, 2, 2};
  const int first = widest <= 64    ? 0
                    : widest <= 128 ? (crowded ? 4
                                       : high  ? 2
                                               : 3)
                                    : (crowded ? 8 : 5);
  for (int i = first; i < 10; i++) {
    if (tiles[i].waves * tiles[i].row_tiles > 8 && !high) continue;
    if (nvf16x3_shared_bytes(tiles[i], head_dim, value_head_dim) * tiles[i].blocks_per_sm <=
        shared_limit) {
      return tiles[i];
    }
  }
  return tiles[10];
}

// ---------------------------------------------------------------- attention_forward_sm90.cu

// wgmma and TMA, sm_90a only. One warp group copies, `query_groups` of them compute 64 rows each.
struct Sm90Tile {
  int tile_keys;     // a multiple of 16, at most 256
  int query_groups;  // 2 or 3
  int stages;        // buffers of keys and of values
  int q_stages;      // buffers of queries, 1 or 2
  bool take_turns;   // the groups issue their products one after another
};

HF_BOTH constexpr int sm90_tile_rows(const Sm90Tile& t) {
  return 64 * t.query_groups;
}
HF_BOTH constexpr int sm90_threads(const Sm90Tile& t) {
  return 128 * (t.query_groups + 1);
}
// Rows lie in slabs of 64 columns, 128 bytes, in the 128-byte swizzle.
HF_BOTH constexpr int sm90_slabs(int dim) {
  return (dim + 63) / 64;
}
// A piece of work in shared memory, with what is to know of its sequence.
HF_BOTH constexpr int sm90_piece_bytes() {
  return 48;
}
HF_BOTH constexpr int
sm90_handovers() {  // pieces that are there at a time, see Copier::hand_over()
  return 4;
}
HF_BOTH constexpr int sm90_shared_bytes(const Sm90Tile& t, int head_dim, int value_head_dim) {
  return 128 * (t.q_stages * sm90_tile_rows(t) * sm90_slabs(head_dim) +
                t.stages * t.tile_keys * (sm90_slabs(head_dim) + sm90_slabs(value_head_dim))) +
         sm90_handovers() * sm90_piece_bytes() + 8 * (2 * t.q_stages + 4 * t.stages) +
         1024;  // pieces, barriers; the base is rounded up to 1024
}
// Pieces of work; of packed sequences packed_query_tiles() for each head. Launch min(pieces,
// multiprocessors) blocks with args.counter pointing at a zero that no other launch in flight uses
// (the kernel leaves it zero), or `pieces` blocks with a null counter.
HF_BOTH long long sm90_pieces(const Sm90Tile& t, const AttentionArgs& args) {
  const int rows = sm90_tile_rows(t);
  return (long long)((args.seq_q + rows - 1) / rows) * args.batch * args.heads_q;
}

// The default for a head dimension, by what was fastest on an H200. `ragged`: rows see different
// numbers of keys (causal, windows); with few keys smaller tiles then waste less on the diagonal.
// `modified`: softcap or ALiBi, which need registers.
HF_BOTH constexpr Sm90Tile sm90_default(int head_dim, int value_head_dim, bool uneven,
                                        bool modified, int seq_k) {
  const int widest = nv_max(head_dim, value_head_dim);
  if (widest <= 64 && seq_k <= 256) return {64, 2, 4, 2, true};
  if (widest <= 64 && modified) return {96, 3, 4, 2, true};
  if (widest <= 64) return {128, 3, 4, 2, true};
  if (widest <= 96) return seq_k <= 768 ? Sm90Tile{64, 3, 4, 2, true} : Sm90Tile{96, 3, 2, 2, true};
  if (widest <= 128 && seq_k <= 256) return {64, 2, 4, 2, true};
  if (widest <= 128 && seq_k <= (uneven ? 3072 : 1536)) {
    return {64, 3, 4, 2, !uneven || seq_k > 1024};
  }
  if (widest <= 128) return {80, 3, 2, 1, true};
  if (widest <= 192) return {96, 2, 2, 1, true};
  return {64, 2, 2, 1, true};
}

// The same for packed sequences of up to `seq_q` queries, where `uneven` is a causal mask: finding
// pieces leaves fewer registers, and the rows of short sequences fill lower tiles better.
HF_BOTH constexpr Sm90Tile sm90_packed_default(int head_dim, int value_head_dim, bool uneven,
                                               bool modified, int seq_q) {
  const int widest = nv_max(head_dim, value_head_dim);
  if (widest <= 128 && seq_q <= 768) return {64, 2, 4, 2, true};
  if (widest <= 64) return {96, 3, 4, 2, true};
  if (widest <= 96) return modified ? Sm90Tile{64, 3, 4, 2, true} : Sm90Tile{96, 3, 2, 2, true};
  if (widest <= 128) {
    return modified || (uneven && seq_q <= 3072) ? Sm90Tile{64, 3, 4, 2, true}
                                                 : Sm90Tile{80, 3, 2, 1, true};
  }
  return widest <= 192 ? Sm90Tile{96, 2, 2, 1, true} : Sm90Tile{64, 2, 2, 1, true};
}
// What computing threads have of registers, of 3 groups or of 2.
HF_BOTH constexpr int sm90_compute_registers(int query_groups, bool packed_sequences) {
  if (packed_sequences) return query_groups == 3 ? 152 : 216;
  return query_groups == 3 ? 160 : 232;
}

// The keys that some query of the call sees. Keys outside are not even multiplied by zero: the
// tensor maps of K and V cover first..end-1 only, and TMA fills the rest with zeros.
struct NvKeyRange {
  int first, end;
};
HF_BOTH NvKeyRange nv_keys_of_call(const AttentionArgs& args) {
  // Unbounded sides hold huge values, so sums are taken in 64 bits.
  const long long first = (long long)args.diagonal - args.window_left;
  const long long end = (long long)args.seq_q + args.diagonal + args.window_right;
  NvKeyRange range;
  range.first = (int)(first < 0 ? 0 : first > args.seq_k ? args.seq_k : first);
  range.end = (int)(end < 0 ? 0 : end > args.seq_k ? args.seq_k : end);
  if (range.end < range.first) range.end = range.first;
  return range;
}

// What the launcher needs for one cuTensorMapEncodeTiled: rank 4, the dtype's 16-bit type,
// interleave none, 128-byte swizzle, 256-byte L2 promotion, fill zeros, element strides 1. Maps of
// Q, K and V are the kernel's second to fourth parameters (CUtensorMap by value), in this order.
struct Sm90Map {
  const void* base;
  unsigned long long dims[4];     // head dimension, row, head, batch; none is 0
  unsigned long long strides[3];  // bytes, of row, head and batch; multiples of 16 below 2^40
  unsigned box[4];
};

HF_BOTH Sm90Map sm90_map(const void* data, const RowStrides& stride, int dim, int first_row,
                         int rows, int heads, int batch, int box_rows) {
  Sm90Map map;
  map.base = (const char*)data + 2 * first_row * stride.seq;
  map.dims[0] = (unsigned long long)dim;
  map.dims[1] = (unsigned long long)(rows < 1 ? 1 : rows);
  map.dims[2] = (unsigned long long)(heads < 1 ? 1 : heads);
  map.dims[3] = (unsigned long long)(batch < 1 ? 1 : batch);
  map.strides[0] = (unsigned long long)(2 * stride.seq);
  map.strides[1] = (unsigned long long)(2 * stride.head);
  map.strides[2] = (unsigned long long)(2 * stride.batch);
  // A dimension of one has no neighbours: any legal stride does.
  for (int i = 0; i < 3; i++) {
    if (map.dims[i + 1] == 1) map.strides[i] = 16;
  }
  map.box[0] = 64;
  map.box[1] = (unsigned)box_rows;
  map.box[2] = map.box[3] = 1;
  return map;
}
// Packed sequences are one, of which the kernel knows where they begin.
HF_BOTH Sm90Map sm90_map_q(const Sm90Tile& t, const AttentionArgs& args) {
  if (args.cu_seqlens_q) {
    return sm90_map(args.q, args.q_stride, args.head_dim, 0, args.total_q, args.heads_q, 1,
                    sm90_tile_rows(t));
  }
  return sm90_map(args.q, args.q_stride, args.head_dim, 0, args.seq_q, args.heads_q, args.batch,
                  sm90_tile_rows(t));
}
HF_BOTH Sm90Map sm90_map_keys(const Sm90Tile& t, const AttentionArgs& args, const void* data,
                              const RowStrides& stride, int dim) {
  if (args.cu_seqlens_k) {
    return sm90_map(data, stride, dim, 0, args.total_k, args.heads_kv, 1, t.tile_keys);
  }
  const NvKeyRange keys = nv_keys_of_call(args);
  return sm90_map(data, stride, dim, keys.first, keys.end - keys.first, args.heads_kv, args.batch,
                  t.tile_keys);
}
HF_BOTH Sm90Map sm90_map_k(const Sm90Tile& t, const AttentionArgs& args) {
  return sm90_map_keys(t, args, args.k, args.k_stride, args.head_dim);
}
HF_BOTH Sm90Map sm90_map_v(const Sm90Tile& t, const AttentionArgs& args) {
  return sm90_map_keys(t, args, args.v, args.v_stride, args.value_head_dim);
}

HF_BOTH bool sm90_stride_fits(const RowStrides& s, int rows, int heads, int batch) {
  const long long limit = 1ll << 39;  // elements of 2 bytes, below 2^40 bytes
  const auto fits = [&](long long stride, int count) {
    return count <= 1 || (stride > 0 && stride % 8 == 0 && stride < limit);
  };
  return fits(s.seq, rows) && fits(s.head, heads) && fits(s.batch, batch);
}

// True if the wgmma family can do this: the copy engine can address the tensors, and there is
// nothing that its kernel does not know. `element` is that of Q, K, V; `bias` and `mask` are the
// Problem's features. Which calls it gets is decided in wgmma_takes() in src/plan/nv_plan.cpp.
HF_BOTH bool sm90_takes(const AttentionArgs& args, ElementType element, bool bias, bool mask) {
  if (element == ElementType::f32 || bias || mask || args.splits > 1) return false;
  if (args.head_dim > 256 || args.value_head_dim > 256) return false;
  if (args.head_dim % 8 != 0 || args.value_head_dim % 8 != 0) return false;
  const auto aligned = [](const void* p) { return (unsigned long long)p % 16 == 0; };
  return aligned(args.q) && aligned(args.k) && aligned(args.v) && aligned(args.out) &&
         sm90_stride_fits(args.q_stride, args.seq_q, args.heads_q, args.batch) &&
         sm90_stride_fits(args.k_stride, args.seq_k, args.heads_kv, args.batch) &&
         sm90_stride_fits(args.v_stride, args.seq_k, args.heads_kv, args.batch) &&
         sm90_stride_fits(args.out_stride, args.seq_q, args.heads_q, args.batch);
}

}  // namespace hipflash
