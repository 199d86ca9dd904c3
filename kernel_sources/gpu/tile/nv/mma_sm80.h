// The tile vocabulary on mma.sync m16n8k16, ldmatrix and cp.async: sm_80 and everything after it.
#pragma once

namespace hipflash {

// A tile of 16-bit elements in shared memory, rows without padding. The 16-byte piece c of row r
// lies at piece c ^ swizzle(r), which makes ldmatrix (8 rows, one piece each) free of bank
// conflicts at every width that is a multiple of 16: the more of the bank number the pitch itself
// varies from row to row, the fewer bits the swizzle needs.
template <int Columns>
struct SharedTile {
  static constexpr int kPieces = Columns / 8;
  static constexpr int kPitch = Columns * 2;
  // Slabs of 16 columns that the swizzle permutes among themselves.
  static constexpr int kPermuted = kPieces % 8 == 0 ? 4 : kPieces % 4 == 0 ? 2 : 1;

  static HF_DEVICE int swizzle(int row) {
    return kPermuted == 4 ? row & 7 : kPermuted == 2 ? (row >> 1) & 3 : (row >> 2) & 1;
  }
  static HF_DEVICE int offset(int row, int piece) {
    return row * kPitch + ((piece ^ swizzle(row)) * 16);
  }
};

// ---- global -> shared

// Loads a row-major tile whose rows lie `stride` bytes apart. Rows outside first..end-1 and columns
// from `columns` on become zeros and are not read.
template <int Rows, int Columns, int Threads, bool kWhole, bool kOnce = false>
HF_DEVICE void load_tile(unsigned tile, const char* from, long long stride, int first, int end,
                         int columns) {
  using Tile = SharedTile<Columns>;
  int thread = threadIdx.x;
  constexpr bool kManyAddresses = Threads == 32 && Columns > 80 && Threads % Tile::kPieces != 0;
  if constexpr (Columns >= 128 || kManyAddresses) {
    // Read anew, so that no address derived from it is kept in a register over the loop.
    thread = fresh_thread();
  }
  const auto exists = [&](int row) { return kWhole || (row >= first && row < end); };
  if constexpr (!Spec::aligned) {
    for (int x = thread; x < Rows * Columns; x += Threads) {
      const int row = x / Columns, column = x % Columns;
      unsigned short element = 0;
      if (exists(row) && column < columns)
        element = *(const unsigned short*)(from + row * stride + column * 2);
      store_element(tile + Tile::offset(row, column / 8) + column % 8 * 2, element);
    }
  } else {
    static_assert(Threads >= Tile::kPieces);
    // Each thread stays in its column. Those that are too few for a row of their own rest.
    constexpr int kStep = Threads / Tile::kPieces;
    int row = thread / Tile::kPieces;
    const int piece = thread % Tile::kPieces;
    const int bytes = min(max(columns - piece * 8, 0), 8) * 2;
    const char* source = from + row * stride + (bytes ? piece * 16 : 0);
    if (Threads % Tile::kPieces == 0 || row < kStep) {
      HF_UNROLL
      for (int i = 0; i < (Rows + kStep - 1) / kStep; i++, row += kStep, source += kStep * stride) {
        if (Rows % kStep == 0 || row < Rows) {
          copy_piece<kOnce>(tile + Tile::offset(row, piece), exists(row) ? source : from,
                            exists(row) ? bytes : 0);
        }
      }
    }
  }
}

// The same for rows that lie anywhere: row r is `distance(r)` elements from `from`.
template <int Rows, int Columns, int Threads, bool kOnce = false, class Distance>
HF_DEVICE void load_rows(unsigned tile, const char* from, Distance&& distance, int begin, int end,
                         int columns) {
  using Tile = SharedTile<Columns>;
  if constexpr (!Spec::aligned) {
    for (int x = (int)threadIdx.x; x < Rows * Columns; x += Threads) {
      const int row = x / Columns, column = x % Columns;
      unsigned short element = 0;
      if (row >= begin && row < end && column < columns)
        element = *(const unsigned short*)(from + 2 * (distance(row) + column));
      store_element(tile + Tile::offset(row, column / 8) + column % 8 * 2, element);
    }
  } else {
    // Places are read ahead of the copies that need them, as many as registers allow.
    constexpr int kAll = Rows * Tile::kPieces, kAhead = Threads == 32 ? 8 : 4;
    constexpr bool kWhole = kAll % (kAhead * Threads) == 0;
#pragma unroll 1
    for (int first = (int)threadIdx.x; first < kAll; first += kAhead * Threads) {
      const char* at[kAhead];
      int bytes[kAhead];
      HF_UNROLL
      for (int i = 0; i < kAhead; i++) {
        const int x = first + i * Threads, piece = x % Tile::kPieces;
        const int row = kWhole ? x / Tile::kPieces : min(x / Tile::kPieces, Rows - 1);
        bytes[i] = row >= begin && row < end ? min(max(columns - piece * 8, 0), 8) * 2 : 0;
        const char* place = from + 2 * distance(row) + piece * 16;  // no branch around a read
        at[i] = bytes[i] ? place : from;
      }
      HF_UNROLL
      for (int i = 0; i < kAhead; i++) {
        const int x = first + i * Threads;
        if (kWhole || x < kAll)
          copy_piece<kOnce>(tile + Tile::offset(x / Tile::kPieces, x % Tile::kPieces), at[i],
                            bytes[i]);
      }
    }
  }
}

// ---- shared -> registers

// Reads 16 x 16 blocks of a shared tile as fragments. All addresses of a lane are one base, an xor
// by the column block (within the columns that the swizzle permutes) and a constant.
template <int Columns>
struct FragmentReader {
  using Tile = SharedTile<Columns>;
  unsigned base;

  // `tile` is a multiple of 128, as are 16 rows of any tile: the xor reaches only the bits below.
  HF_DEVICE unsigned address(unsigned tile, int row_block, int column_block) const {
    constexpr int kPer = Tile::kPermuted;
    return ((tile + base) ^ (column_block % kPer * 32)) + column_block / kPer * (kPer * 32) +
           row_block * 16 * Tile::kPitch;
  }
  // Rows and columns as they are: the A operand of Q, the B operand of K.
  HF_DEVICE void read(unsigned (&f)[4], unsigned tile, int row_block, int column_block) const {
    read_block<false>(f, address(tile, row_block, column_block));
  }
  // Transposed: the B operand of V, whose rows are the summed dimension.
  HF_DEVICE void read_transposed(unsigned (&f)[4], unsigned tile, int row_block,
                                 int column_block) const {
    read_block<true>(f, address(tile, row_block, column_block));
  }
};

// Lanes 0-15 address the rows, 16-31 the next 8 columns: Q (A operand) and V (transposed).
template <int Columns>
HF_DEVICE FragmentReader<Columns> rows_first_reader(int row0) {
  const int lane = fresh_thread() & 31;
  return {(unsigned)SharedTile<Columns>::offset(row0 + (lane & 15), lane >> 4)};
}
// Lanes 8-15 and 24-31 address the next 8 columns, 16-31 the next 8 rows: K (B operand).
template <int Columns>
HF_DEVICE FragmentReader<Columns> columns_first_reader() {
  const int lane = fresh_thread() & 31;
  return {(unsigned)SharedTile<Columns>::offset((lane & 7) + (lane >> 4) * 8, (lane >> 3) & 1)};
}

// ---- products: c += a . b, or c = a . b

HF_DEVICE void mma(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma_of<kBf16>(c, a, b0, b1);
}
HF_DEVICE void mma_first(float* c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma_first_of<kBf16>(c, a, b0, b1);
}

}  // namespace hipflash
