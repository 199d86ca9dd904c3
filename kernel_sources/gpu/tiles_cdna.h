// Tile configs of attention_forward_cdna.hip, and all that follows from one: padding, threads,
// shared memory, grid, compiler options.
//
// Both the plan and the kernel text include this header, so it includes nothing.
#pragma once

namespace hipflash {
namespace cdna {

constexpr int round_up(int n, int step) {
  return (n + step - 1) / step * step;
}
constexpr int divide_up(int n, int step) {
  return (n + step - 1) / step;
}
constexpr int larger(int a, int b) {
  return a > b ? a : b;
}

// ---- cards --------------------------------------------------------------------------------------

enum class Card { none, gfx908, gfx90a, gfx942, gfx950 };

constexpr bool starts_with(const char* text, const char* prefix) {
  while (*prefix) {
    if (*text++ != *prefix++) return false;
  }
  return true;
}

// By the name of the architecture ("gfx942", flags may follow); none: not a card of this family.
constexpr Card card_of(const char* arch) {
  return starts_with(arch, "gfx908")   ? Card::gfx908
         : starts_with(arch, "gfx90a") ? Card::gfx90a
         : starts_with(arch, "gfx942") ? Card::gfx942
         : starts_with(arch, "gfx950") ? Card::gfx950
                                       : Card::none;
}

// Dies of a card, each with an L2 cache of its own, which take blocks in turn.
constexpr int dies_of(Card card) {
  return card == Card::gfx942 || card == Card::gfx950 ? 8 : 1;
}

// Shared memory of a compute unit, and so the most that one block may take.
constexpr int shared_limit(Card card) {
  return card == Card::gfx950 ? 160 * 1024 : 64 * 1024;
}

constexpr int kWaveLanes = 64;

// Spec::aligned makes the kernel read and write rows through buffers with 32-bit offsets inside a
// tile. So besides the alignment a plan must check that each distance between neighbouring rows
// of q, k, v and out is within this; other strides take the element path, which has no limit.
constexpr bool stride_allows_vectors(long long stride) {
  return stride >= 0 && stride < (1LL << 31) / (128 * 4) - 1024;
}

// ---- tiles --------------------------------------------------------------------------------------

struct Tile {
  int waves;           // of a block
  int mma_rows;        // 32 or 16: queries of a wave, and the sides of its matrix products
  int tile_keys;       // keys of one step
  int waves_per_simd;  // that the registers must leave room for
  int read_ahead;      // fragments that are read from shared memory before they are used
  // 2: shared memory holds two tiles of K and V, and the next ones go straight to it (gfx950).
  // Takes rows of whole chunks, no bias or bool mask, no pages; other kernels work as with 1.
  int stages = 1;
};

constexpr int threads(Tile t) {
  return kWaveLanes * t.waves;
}
constexpr int queries(Tile t) {
  return t.mma_rows * t.waves;
}

// A thread brings four keys of V; so many threads share a row of V.
constexpr int value_pieces(Tile t) {
  return 4 * threads(t) / t.tile_keys;
}

// Head dimensions are padded to whole steps of the matrix products. 16-row products pad to 8 chunks
// of 16 bytes, since the lane groups that read shared memory together then want rows without gaps
// (below); long rows pad to 16 chunks and need no gaps either. Padding of K and Q is zeros.
constexpr int padded_head_dim(Tile t, int element_bytes, int head_dim) {
  const int step = 16 / element_bytes * (t.mma_rows == 16 ? 8 : kWaveLanes / t.mma_rows);
  const bool long_row = head_dim * element_bytes > 896;
  return round_up(head_dim, long_row ? larger(step, 256 / element_bytes) : step);
}
constexpr int padded_value_dim(Tile t, int element_bytes, int value_dim) {
  if (t.stages == 2) return round_up(value_dim, t.mma_rows);
  return round_up(value_dim, larger(t.mma_rows, value_pieces(t) * 4 / element_bytes));
}

// Shared memory holds a tile of K, then one of V. Places are counted in chunks of 16 bytes.
//
// A row of K is its chunks. If their number is 2, 4 or a multiple of 8, the chunks of a row change
// places by a pattern that repeats after 8 rows; else rows are an odd number of chunks apart.
// Either way 8 neighbouring rows cover all banks. Threads bring whole chunks in equal numbers, so
// some rows past the tile may be written.
constexpr bool swizzled_keys(int padded_dim, int element_bytes) {
  const int chunks = padded_dim * element_bytes / 16;
  return chunks == 2 || chunks == 4 || chunks % 8 == 0;
}
constexpr int key_pitch(int padded_dim, int element_bytes) {
  const int chunks = padded_dim * element_bytes / 16;
  return swizzled_keys(padded_dim, element_bytes) ? chunks : chunks | 1;
}
// The pattern. Rows shorter than 8 chunks share the banks with the next ones, so it changes as much
// more slowly.
constexpr int swizzled_chunk(int chunks_of_row, int row, int chunk) {
  const int spread = chunks_of_row < 8 ? chunks_of_row : 8;
  return chunk ^ (row / (8 / spread) % spread);
}
// Where chunk c of row r lies, in bytes.
constexpr int key_place(int padded_dim, int element_bytes, int row, int chunk) {
  const int chunks = padded_dim * element_bytes / 16;
  return (row * key_pitch(padded_dim, element_bytes) +
          (swizzled_keys(padded_dim, element_bytes) ? swizzled_chunk(chunks, row, chunk) : chunk)) *
         16;
}
constexpr int key_pieces(Tile t, int padded_dim, int element_bytes) {  // chunks of each thread
  return divide_up(t.tile_keys * padded_dim * element_bytes / 16, threads(t));
}
constexpr int key_bytes(Tile t, int padded_dim, int element_bytes) {
  const int written = key_pieces(t, padded_dim, element_bytes) * threads(t);
  const int rows = divide_up(written, padded_dim * element_bytes / 16);
  return rows * key_pitch(padded_dim, element_bytes) * 16;
}

// A row of V in shared memory is one value dim of all keys.
constexpr int value_bytes(Tile t, int padded_dim, int element_bytes) {
  return t.tile_keys * padded_dim * element_bytes;
}

constexpr int value_place(Tile t, int element_bytes, int row, int chunk) {
  const int chunks = t.tile_keys * element_bytes / 16;
  return (row * chunks + swizzled_chunk(chunks, row, chunk)) * 16;
}

// ---- two stages ---------------------------------------------------------------------------------
// Shared memory holds two pairs of a tile of K and one of V, both in rows as in global memory. A
// load fills places in their order, so it is the chunks that change places within their rows.

// As key_place(), for reads that have 64 banks: 16 neighbouring rows cover them.
constexpr int direct_key_chunk(int chunks, int row, int chunk) {
  if (chunks != 2 && chunks != 4 && chunks % 8 != 0) return chunk;  // an odd number of chunks apart
  return swizzled_chunk(chunks, row, chunk) ^ (row / 8 % 2 * (chunks % 16 == 0 ? 8 : 1));
}
constexpr int direct_key_bytes(Tile t, int padded_dim, int element_bytes) {
  return round_up(t.tile_keys * key_pitch(padded_dim, element_bytes), threads(t)) * 16;
}

// A transposing read takes four rows of 32 bytes in 16 lanes, and twice as many bytes of each
// in 32. The first cover 32 banks, the second 64.
constexpr int direct_value_chunk(int chunks, int row, int chunk) {
  return chunks % 16 == 0  ? chunk ^ (row % 2 * 10 ^ row / 2 % 2 * 4)
         : chunks % 8 == 0 ? chunk ^ row % 4 * 2
                           : chunk;
}
constexpr int direct_value_bytes(Tile t, int padded_dim, int element_bytes) {
  return round_up(t.tile_keys * padded_dim * element_bytes / 16, threads(t)) * 16;
}

constexpr int shared_bytes(Tile t, int element_bytes, int head_dim, int value_dim) {
  if (t.stages == 2) {
    return 2 *
           (direct_key_bytes(t, padded_head_dim(t, element_bytes, head_dim), element_bytes) +
            direct_value_bytes(t, padded_value_dim(t, element_bytes, value_dim), element_bytes));
  }
  return key_bytes(t, padded_head_dim(t, element_bytes, head_dim), element_bytes) +
         value_bytes(t, padded_value_dim(t, element_bytes, value_dim), element_bytes);
}

// True if the text is written for this tile.
constexpr bool possible(Tile t, int element_bytes, int head_dim, int value_dim, Card card) {
  const int groups = kWaveLanes / t.mma_rows;
  if (t.stages == 2 && (card != Card::gfx950 || element_bytes != 2 || t.mma_rows != 32)) {
    return false;
  }
  return value_pieces(t) % larger(8, 4 * groups) == 0 &&
         t.tile_keys % larger(t.mma_rows, groups * 16 / element_bytes) == 0 &&
         shared_bytes(t, element_bytes, head_dim, value_dim) <= shared_limit(card);
}

// Blocks of the one-dimensional grid of dense calls with a block for each query head.
constexpr long long blocks(Tile t, int batch, int heads_q, int seq_q, int splits) {
  return static_cast<long long>(divide_up(seq_q, queries(t))) * heads_q * batch * splits;
}

// The kernel that joins splits has one thread for each element of the output.
constexpr int kMergeThreads = 256;
constexpr long long merge_blocks(int batch, int heads_q, int seq_q, int value_dim) {
  return (static_cast<long long>(batch) * heads_q * seq_q * value_dim + kMergeThreads - 1) /
         kMergeThreads;
}

// ---- the list that a tuner chooses from, sound ones first ---------------------------------------

constexpr Tile kTiles[] = {
    {4, 32, 64, 2, 4},    {4, 32, 32, 4, 2},    {4, 32, 32, 2, 4},    {4, 32, 64, 3, 2},
    {8, 32, 64, 2, 4},    {4, 32, 32, 1, 2},    {4, 16, 32, 2, 4},    {4, 16, 32, 1, 4},
    {4, 16, 16, 1, 4},    {4, 32, 64, 1, 4},    {4, 32, 32, 3, 4, 2}, {4, 32, 32, 2, 2, 2},
    {4, 32, 32, 4, 2, 2}, {4, 32, 64, 2, 3, 2},
};

// The default for an architecture, element size and head dimensions. `plain`: no softcap, ALiBi,
// bias or bool mask, and rows are aligned; anything else takes registers for addresses and values.
// `ragged`: the sequence's own numbers take some too.
constexpr Tile default_tile(Card card, int element_bytes, int head_dim, int value_dim, bool plain,
                            bool ragged = false) {
  // Rows that are not whole chunks take the element path too.
  plain = plain && head_dim * element_bytes % 16 == 0 && value_dim * element_bytes % 16 == 0;
  const int bytes = element_bytes * larger(head_dim, value_dim);  // of the longer row
  if (element_bytes == 2) {
    if (bytes <= 64) return {4, 32, 64, plain || card != Card::gfx908 ? 2 : 1, 4};
    if (card == Card::gfx908) {  // products go to accumulation registers, others are scarce
      if (bytes <= 128) return {4, 32, 32, plain ? 2 : 1, 4};
      if (bytes <= 256) return {4, 32, plain ? 64 : 32, 1, 4};
      return bytes <= 448 && plain ? Tile{4, 32, 32, 1, 4} : Tile{4, 16, 32, 1, 4};
    }
    if (card == Card::gfx950 && plain) {
      if (bytes > 128 && bytes <= 256) return {4, 32, 32, 3, 4, 2};
      if (bytes > 384 && bytes <= 512 && !ragged) return {4, 32, 32, 2, 2, 2};
    }
    // hipRTC 5.2 spills the work of packed sequences at four waves.
    const int waves = ragged && card == Card::gfx90a ? 3 : 4;
    if (bytes <= 128) {
      return plain ? Tile{4, 32, 32, waves, card == Card::gfx90a ? 2 : 3} : Tile{4, 32, 32, 2, 4};
    }
    if (bytes <= 256) return plain ? Tile{4, 32, 64, 2, 3} : Tile{4, 32, 32, 2, 4};
    if (bytes <= 384 && plain) return {4, 32, 32, 2, 3};
    if (bytes <= 512 && plain && !ragged && card != Card::gfx90a) return {4, 32, 32, 1, 2};
    if (bytes <= 512) return {4, 16, 32, plain ? 2 : 1, 4};
    return {4, 16, 32, 1, 2};
  }
  if (bytes <= (card == Card::gfx908 ? 256 : 512) && plain) return {4, 32, 32, 2, 4};
  if (bytes <= 512) return plain || bytes <= 256 ? Tile{4, 32, 32, 1, 4} : Tile{4, 16, 32, 1, 4};
  if (bytes <= 1024) return plain ? Tile{4, 16, 32, 1, 4} : Tile{4, 16, 16, 1, 4};
  return {4, 16, 16, 1, 2};
}

// The default for at most kFewRows rows that share keys: memory bounds such a call, so the tile is
// small in rows, and its threads hold few registers of the K and V on their way. `modified`:
// softcap, ALiBi, bias, a bool mask or unaligned rows. Long rows have no tile of this kind.
constexpr int kFewRows = 64;
constexpr bool has_few_rows_tile(int element_bytes, int head_dim, int value_dim) {
  return element_bytes * larger(head_dim, value_dim) <= 512;
}
constexpr Tile few_rows_tile(Card card, int element_bytes, int head_dim, int value_dim,
                             bool modified) {
  const int bytes = element_bytes * larger(head_dim, value_dim);
  if (card == Card::gfx908 || bytes > 256) return {4, 16, 32, 1, 4};
  return {4, 16, 32, modified ? 2 : 3, 4};
}

// The default for short sequences (game boards): at most kFewRows rows, and more keys than a tile
// of few rows has, but few enough for one step. Then all of K and V is under way at once, and the
// call waits for memory once. There is work for each SIMD only if many blocks fit, so waves are few
// where rows are short.
constexpr int kBoardKeys = 64;
constexpr bool has_board_tile(int element_bytes, int head_dim, int value_dim, bool modified) {
  return element_bytes == 2 && larger(head_dim, value_dim) <= 128 && !modified &&
         head_dim % 8 == 0 && value_dim % 8 == 0;
}
constexpr Tile board_tile(Card card, int head_dim, int value_dim) {
  const int dim = larger(head_dim, value_dim);
  const int most = card == Card::gfx908 ? 2 : 4;  // waves of a SIMD
  if (dim <= 32) return {2, 32, kBoardKeys, most, 4};
  return {4, 16, kBoardKeys, dim <= 64 ? most : 2, 4};
}

// ---- compilation --------------------------------------------------------------------------------

// Without -fno-slp-vectorize the compiler makes packed f32 instructions, which cannot run beside
// matrix products. It must come after the -O option.
constexpr const char* kOptions[] = {"-O3", "-std=c++17", "-fno-slp-vectorize"};

}  // namespace cdna
}  // namespace hipflash
