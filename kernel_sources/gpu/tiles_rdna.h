// Tile configs of the RDNA families, and all that follows from one: threads, shared memory, grid.
//
// Both the plan and the kernel text include this header, so it includes nothing. The wmma tile
// belongs to attention_forward_rdna.hip (cards with 16x16x16 matrix products of 16-bit elements),
// the dot tile to attention_forward_dot.hip (every other card, and f32).
#pragma once

namespace hipflash {
namespace rdna {

constexpr int round_up(int n, int step) {
  return (n + step - 1) / step * step;
}
constexpr int divide_up(int n, int step) {
  return (n + step - 1) / step;
}
constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

// 16-byte pieces (8 elements of 16 bits) of a row, rounded up to a power of two: threads are dealt
// out over so many columns, and columns past the row stay idle. Eight at least: two short rows side
// by side would meet in the banks of shared memory.
constexpr int piece_columns(int dim) {
  int columns = 8;
  while (columns * 8 < dim) columns *= 2;
  return columns;
}

// ---- cards --------------------------------------------------------------------------------------

constexpr bool starts_with(const char* text, const char* prefix) {
  while (*prefix) {
    if (*text++ != *prefix++) return false;
  }
  return true;
}

// The generation of an architecture's matrix unit by its name ("gfx1100", flags may follow):
// 11 (RDNA3, 3.5), 12 (RDNA4), or 0 when it has none that the wmma family knows.
constexpr int wmma_generation(const char* arch) {
  if (starts_with(arch, "gfx1200") || starts_with(arch, "gfx1201")) return 12;
  if (starts_with(arch, "gfx110") || starts_with(arch, "gfx115")) return 11;
  return 0;
}

// Lanes of a wave as hipRTC compiles by default.
constexpr int wave_lanes(const char* arch) {
  return starts_with(arch, "gfx10") || starts_with(arch, "gfx11") || starts_with(arch, "gfx12")
             ? 32
             : 64;
}

// The largest shared memory of a block.
constexpr int kSharedLimit = 64 * 1024;

// Spec::aligned lets the wmma family read K and V through buffers with 32-bit offsets inside a
// tile. So a plan may set it only where, besides the alignment, the distance between neighbouring
// rows is non-negative and this small; other strides take the element path, which has no limit.
constexpr long long kLargestAlignedStride = (1LL << 31) / (64 * 2) - 1024;  // elements

// ---- the wmma family ----------------------------------------------------------------------------

struct WmmaTile {
  int waves;          // per block, a power of two
  int query_tiles;    // 16-row query tiles of each wave
  int tile_keys;      // keys per step: 16, 32 or 64
  bool query_shared;  // Q is read from shared memory in each step; else it lives in registers
  int value_slice;    // value dims of one block, a multiple of 16; the grid covers the others
};

constexpr int wmma_threads(WmmaTile tile) {
  return 32 * tile.waves;
}
constexpr int wmma_queries(WmmaTile tile) {
  return 16 * tile.query_tiles * tile.waves;
}
constexpr int wmma_slices(WmmaTile tile, int value_dim) {
  return divide_up(value_dim, tile.value_slice);
}

// Where K, V and Q lie in shared memory, in bytes. Every row is an odd number of 16-byte pieces
// long, so eight neighbouring rows cover all 32 banks. V lies transposed (a row is a value dim);
// the threads that store it are eight dims apart, so every `group_rows` rows some padding moves the
// following rows to other banks.
struct WmmaShared {
  int k_row, v_row, group_rows, group;
  int k, v, q, bytes;
};

constexpr WmmaShared wmma_shared(int generation, WmmaTile tile, int head_dim) {
  WmmaShared at = {};
  at.k_row = 2 * round_up(head_dim, 16) + 16;
  at.v_row = 2 * tile.tile_keys + 16;
  at.group_rows = generation == 12 ? 8 : 16;
  at.group = at.group_rows * at.v_row + (generation == 12 ? 16 : 32);
  at.k = 0;
  at.v = tile.tile_keys * at.k_row;
  at.q = at.v + tile.value_slice / at.group_rows * at.group;
  at.bytes = at.q + (tile.query_shared ? wmma_queries(tile) * at.k_row : 0);
  return at;
}

// Where row `row` of a matrix goes among the operand rows of gfx11 (tile/rdna/wmma_gfx11.h).
constexpr int wmma_operand_row(int generation, int row) {
  return generation == 12 ? row : (row & ~15) | ((row & 7) << 1) | ((row >> 3) & 1);
}
constexpr int wmma_key_offset(int generation, WmmaShared at, int key) {
  return wmma_operand_row(generation, key) * at.k_row;
}
constexpr int wmma_value_offset(int generation, WmmaShared at, int dim) {
  const int row = wmma_operand_row(generation, dim);
  return row / at.group_rows * at.group + row % at.group_rows * at.v_row;
}

// How the threads of a block take K and V from global to shared memory. K goes in 16-byte pieces: a
// thread has one column and every key_step-th row. V is transposed on the way: a thread takes 8
// dims of `run` neighbouring keys and stores 8 runs; `sharers` neighbouring threads fill one
// 16-byte piece.
struct WmmaStaging {
  int key_columns, key_step, key_pieces;
  int value_columns, run, sharers, runs, run_step, value_tasks;
  bool all_keys, all_values;  // every thread has something to store
};

constexpr WmmaStaging wmma_staging(WmmaTile tile, int head_dim) {
  WmmaStaging to = {};
  const int threads = wmma_threads(tile), keys = tile.tile_keys;
  to.key_columns = piece_columns(head_dim);
  to.key_step = threads / to.key_columns;
  to.key_pieces = to.key_step ? divide_up(keys, to.key_step) : 0;
  to.all_keys = keys >= to.key_step && to.key_columns * 8 == round_up(head_dim, 16);
  const int columns = piece_columns(tile.value_slice);
  to.value_columns = columns;
  to.run = keys / 8 * columns >= threads ? 8 : keys / 4 * columns >= threads ? 4 : 2;
  to.sharers = 8 / to.run;
  to.runs = keys / to.run;
  to.run_step = threads / columns;
  to.value_tasks = to.run_step ? divide_up(to.runs, to.run_step) : 0;
  to.all_values = to.runs >= to.run_step && columns * 8 == tile.value_slice;
  return to;
}

// A thread's first row and column of K, and first run and dim of V.
constexpr int wmma_key_row(WmmaStaging to, int thread) {
  return thread / to.key_columns;
}
constexpr int wmma_key_column(WmmaStaging to, int thread) {
  return thread % to.key_columns * 8;
}
constexpr int wmma_value_run(WmmaStaging to, int thread) {
  return thread % to.sharers + to.sharers * (thread / to.sharers / to.value_columns);
}
constexpr int wmma_value_dim(WmmaStaging to, int thread) {
  return thread / to.sharers % to.value_columns * 8;
}

// Blocks of the one-dimensional grid.
constexpr long long wmma_blocks(WmmaTile tile, int batch, int heads_q, int seq_q, int value_dim,
                                int splits) {
  return static_cast<long long>(divide_up(seq_q, wmma_queries(tile))) * heads_q * batch * splits *
         wmma_slices(tile, value_dim);
}

// The registers of a lane that hold Q and O for one query tile; gfx11 keeps Q twice, once in each
// half wave. O takes half a register for each value dim. S, P, the operands in flight and the next
// K and V need some 60 more of the 256.
constexpr int wmma_query_registers(int generation, int head_dim) {
  return round_up(head_dim, 16) / (generation == 12 ? 4 : 2);
}

// Neighbouring slices of equal size, as few as `limit` dims each allow.
constexpr int wmma_slice(int value_dim, int limit) {
  return round_up(divide_up(value_dim, divide_up(value_dim, limit)), 16);
}

// The default. `modified`: softcap, ALiBi, bias, a mask or unaligned rows, which take registers
// too; so do the addresses of rows in pages (`paged`). docs/performance.md has the estimates that
// it rests on.
constexpr WmmaTile wmma_default(int generation, int head_dim, int value_dim, int seq_q,
                                bool modified, bool paged = false) {
  const bool gfx12 = generation == 12, crowded = modified || paged;
  const int q = wmma_query_registers(generation, head_dim), v = round_up(value_dim, 16);
  if (head_dim <= 64 && v <= 64 && seq_q > 64 && !crowded) {
    return {4, 2, gfx12 || head_dim <= 32 ? 32 : 16, false, v};
  }
  // Registers of Q and O up to which 32 keys a step fit, and up to which Q fits at all.
  const int wide = gfx12 ? (crowded ? 112 : 144) : (crowded ? 96 : 128);
  const int most = gfx12 ? (crowded ? 176 : 192) : modified && paged ? 112 : crowded ? 144 : 192;
  WmmaTile tile = {8, 1, q + v / 2 > wide ? 16 : 32, false, v};
  if (gfx12) {
    tile.value_slice = wmma_slice(v, 2 * (most - q) / 16 * 16);
  } else {
    tile.value_slice = wmma_slice(v, head_dim <= 256 ? (paged ? 192 : 256) : crowded ? 128 : 192);
    tile.query_shared = q + tile.value_slice / 2 > most;
    if (tile.query_shared) tile.waves = 4;
  }
  // Few queries: waves without rows would only wait. But fewer threads hold more of the next K and
  // V each, so it takes registers that O and Q leave.
  const int held = q + tile.value_slice / 2;
  const bool roomy = held <= wide || (paged && !modified && held <= 128);
  const int fewest = tile.query_shared || !roomy ? tile.waves : held > wide / 2 + 16 ? 4 : 2;
  while (tile.waves > fewest && wmma_queries(tile) >= 2 * seq_q) tile.waves /= 2;
  if (tile.waves < 4) tile.tile_keys = 16;
  while (wmma_shared(generation, tile, head_dim).bytes > kSharedLimit) tile.waves /= 2;
  return tile;
}

// What a tuner may try: value_slice is left to wmma_candidate().
constexpr WmmaTile kWmmaTiles[] = {
    {8, 1, 32, false, 0}, {4, 1, 32, false, 0}, {4, 2, 32, false, 0}, {4, 2, 16, false, 0},
    {2, 2, 32, false, 0}, {8, 1, 16, false, 0}, {4, 1, 16, false, 0}, {2, 1, 16, false, 0},
    {8, 1, 64, false, 0}, {4, 1, 64, false, 0}, {4, 1, 16, true, 0},  {4, 1, 32, true, 0},
    {2, 1, 16, true, 0},
};
constexpr int kWmmaTileCount = sizeof(kWmmaTiles) / sizeof(kWmmaTiles[0]);

// True if a tile fits a problem in shared memory, threads and (estimated) registers.
constexpr bool wmma_fits(WmmaTile tile, int generation, int head_dim) {
  const WmmaStaging to = wmma_staging(tile, head_dim);
  const int q = tile.query_shared ? 8 : wmma_query_registers(generation, head_dim);
  const int registers = tile.query_tiles * (q + tile.value_slice / 2 + tile.tile_keys / 2) +
                        4 * (to.key_pieces + to.value_tasks * to.run);
  return to.key_step >= 1 && to.run_step >= 1 && (to.run_step >= to.sharers || to.run == 8) &&
         registers <= 216 && wmma_shared(generation, tile, head_dim).bytes <= kSharedLimit;
}

// A tile of the list with its value slice for a problem: the longest of a few that fits, since each
// slice computes the scores anew. Only long rows may be worth more slices than they need. No waves:
// it does not fit.
constexpr WmmaTile wmma_candidate(WmmaTile tile, int generation, int head_dim, int value_dim) {
  const int v = round_up(value_dim, 16), shortest = head_dim > 128 ? 96 : 256;
  for (int longest = 256; longest >= shortest; longest -= 32) {
    tile.value_slice = wmma_slice(v, longest);
    if (wmma_fits(tile, generation, head_dim)) return tile;
  }
  tile.waves = 0;
  return tile;
}

// ---- the dot family -----------------------------------------------------------------------------

// Threads form rows of 16; a thread has 4 queries, every 16th key, and every 16th quad of value
// dims.
struct DotTile {
  int threads;      // per block, a multiple of 64
  int tile_keys;    // keys per step, a multiple of 16
  int dim_chunk;    // dims of Q and K in shared memory at a time, a multiple of 4
  int value_chunk;  // dims of V in shared memory at a time, a multiple of 64
};

constexpr int dot_queries(DotTile tile) {
  return tile.threads / 4;
}

// Q, then K or V, then P, in bytes. A row is an odd number of quads long.
struct DotShared {
  int q_row, v_row, p_row;
  int q, kv, p, bytes;
};

constexpr int larger(int a, int b) {
  return a > b ? a : b;
}

constexpr DotShared dot_shared(int element_bytes, DotTile tile) {
  DotShared at = {};
  at.q_row = (tile.dim_chunk / 4 | 1) * 4 * element_bytes;
  at.v_row = (tile.value_chunk / 4 | 1) * 4 * element_bytes;
  at.p_row = (tile.tile_keys / 4 | 1) * 16;
  at.q = 0;
  at.kv = round_up(dot_queries(tile) * at.q_row, 16);
  at.p = at.kv + round_up(tile.tile_keys * larger(at.q_row, at.v_row), 16);
  at.bytes = at.p + dot_queries(tile) * at.p_row;
  return at;
}

constexpr long long dot_blocks(DotTile tile, int batch, int heads_q, int seq_q, int splits) {
  return static_cast<long long>(divide_up(seq_q, dot_queries(tile))) * heads_q * batch * splits;
}

constexpr DotTile dot_default(int element_bytes, int head_dim, int value_dim) {
  return {128, element_bytes == 4 ? 32 : 64, smaller(round_up(head_dim, 4), 128),
          value_dim <= 64 ? 64 : 128};
}

// ---- for both families --------------------------------------------------------------------------

// attention_merge has one thread for each element of the output.
constexpr int kMergeThreads = 256;
constexpr long long merge_blocks(int batch, int heads_q, int seq_q, int value_dim) {
  return (static_cast<long long>(batch) * heads_q * seq_q * value_dim + kMergeThreads - 1) /
         kMergeThreads;
}

constexpr const char* kOptions[] = {"-O3", "-std=c++17"};

}  // namespace rdna
}  // namespace hipflash
