// Which problems attention_tiny.hip and attention_board_sm80.cu take, and how they are launched.
// Part of the kernel text and also compiled into the library; it includes nothing.
#pragma once

namespace hipflash {
namespace tiny {

constexpr int divide_up(int n, int step) {
  return (n + step - 1) / step;
}

// Lanes of a row: a power of two, enough for one 16-byte piece each, at most 32.
constexpr int lanes(int element_bytes, int head_dim, int value_dim) {
  const int longest = head_dim > value_dim ? head_dim : value_dim;
  int n = 1;
  while (n < 32 && n * 16 < longest * element_bytes) n *= 2;
  return n;
}

// 32-bit registers that the pieces of one row take in each lane.
constexpr int row_registers(int keys, int element_bytes, int head_dim, int value_dim) {
  const int n = 16 * lanes(element_bytes, head_dim, value_dim);
  const int q = divide_up(head_dim * element_bytes, n), v = divide_up(value_dim * element_bytes, n);
  return 4 * (q + keys * (q + v));
}

constexpr int kMostKeys = 8;
constexpr int kMostRegisters = 144;

struct Tile {
  int keys;     // of the problem
  int rows;     // that a group of lanes has in flight
  int threads;  // of a block
};

constexpr Tile default_tile(int keys, int element_bytes, int head_dim, int value_dim) {
  return {keys, 2 * row_registers(keys, element_bytes, head_dim, value_dim) <= 48 ? 2 : 1, 128};
}

constexpr long long blocks(Tile t, int element_bytes, int head_dim, int value_dim, long long rows) {
  const int rows_of_block = t.threads / lanes(element_bytes, head_dim, value_dim) * t.rows;
  return (rows + rows_of_block - 1) / rows_of_block;
}

// ---- attention_board_sm80.cu: short sequences on mma.sync

constexpr int kMostBoardKeys = 128, kMostBoardQueries = 128;
constexpr int kMostBoardDim = 128;

struct BoardTile {
  int keys;           // of the problem, rounded up to 16
  int tail;           // 1: some of them do not exist
  int waves;          // of 16 queries each
  int blocks_per_sm;  // that registers are divided for
};

constexpr int round_up(int n, int step) {
  return divide_up(n, step) * step;
}

constexpr BoardTile board_tile(int seq_q, int seq_k, int head_dim, int value_dim) {
  const int keys = round_up(seq_k, 16), widest = head_dim > value_dim ? head_dim : value_dim;
  const int waves = seq_q > 48 ? 4 : divide_up(seq_q, 16);
  const bool many = keys > 64;
  const int blocks = many && widest > 96                    ? 2
                     : widest > 96 || (many && widest > 64) ? 3
                     : many || widest > 64                  ? 4
                                                            : 5;
  return {keys, seq_k % 16 != 0, waves, blocks};
}

constexpr int board_shared_bytes(BoardTile t, int head_dim, int value_dim) {
  const int d = round_up(head_dim, 16), dv = round_up(value_dim, 16);
  return 2 * ((16 * t.waves + t.keys) * d + t.keys * dv);
}

constexpr long long board_blocks(BoardTile t, long long batch_heads, int seq_q) {
  return batch_heads * divide_up(seq_q, 16 * t.waves);
}

// ---- compilation

constexpr const char* kHipOptions[] = {"-O3", "-std=c++17"};
constexpr const char* kCudaOptions[] = {"--std=c++17", "-default-device"};

}  // namespace tiny
}  // namespace hipflash
