// Tiles that go straight from global to shared memory, and V out of it by transposing reads:
// gfx950.
//
// Shared memory holds two tiles of K and V: while a step works on one pair, the next one arrives.
// So no registers are spent on the way, and a step needs one barrier: whoever passes it has the
// tile of this step, and nobody is left at the one before, whose place the next tile takes.
#pragma once

namespace hipflash {

// ---- K and V on their way -----------------------------------------------------------------------

// A load fills 16 bytes for each thread, in the order of places. So the thread of a place fetches
// the chunk that belongs there. Layout: kRowChunks, kPitch (chunks), kPeriod (rows after which
// chunks lie alike), chunk_at(row, place in the row).
template <class Layout>
struct DirectLoader {
  static constexpr int kPitch = Layout::kPitch;
  static constexpr int kPieces = cdna::divide_up(kKeys * kPitch, kThreads);
  static constexpr int kBytes = kPieces * kThreads * 16;
  // Pieces are so many rows apart, and some after each other have chunks of their own.
  static constexpr bool kWholeRows = kThreads % kPitch == 0;
  static constexpr int kStep = kWholeRows ? kThreads / kPitch : 1;
  static constexpr int kOwn = !kWholeRows ? kPieces
                              : kStep < Layout::kPeriod && kPieces > Layout::kPeriod / kStep
                                  ? Layout::kPeriod / kStep
                              : kStep < Layout::kPeriod ? kPieces
                                                        : 1;

  Rows rows;   // from the next tile on
  int stride;  // of them, in a scalar register whatever else it is used for
  int dim;
  Buffer buffer;
  u32 offset[kOwn];

  HF_MEMBER void start(const Rows& all, int row_dim) {
    rows = all;
    stride = uniform(static_cast<int>(all.stride));
    dim = row_dim;
    HF_UNROLL for (int i = 0; i < kOwn; i++) {
      const int place = thread_id() + i * kThreads, row = place / kPitch;
      const int chunk = Layout::chunk_at(row, place % kPitch);
      const bool there = row < kKeys && chunk < Layout::kRowChunks && chunk * kChunk < dim;
      offset[i] = there ? static_cast<u32>(row) * static_cast<u32>(stride) + chunk * 16
                        : static_cast<u32>(kNowhere);
    }
  }
  // Makes the next tile the one that load() takes from.
  HF_MEMBER void next() {
    buffer = buffer_of({rows.base, stride, rows.count}, dim, kKeys);
    rows.base += kKeys * rows.stride;
    rows.count -= kKeys;
  }
  // `to`: the wave's place in the tile.
  HF_MEMBER void load(SharedPlace to, int i) {
    const u32 rows_before = static_cast<u32>(i / kOwn * kOwn * kStep);
    const u32 at = offset[i % kOwn] + rows_before * static_cast<u32>(stride);
    load4_to_shared(buffer, static_cast<int>(at), to + i * kThreads * 16);
  }
};

struct DirectKeys {
  static constexpr int kRowChunks = kHeadDim / kChunk;
  static constexpr int kPitch = cdna::key_pitch(kHeadDim, kElementBytes);
  static constexpr int kPeriod = 16;
  static HF_MEMBER int chunk_at(int row, int place) {
    return cdna::direct_key_chunk(kRowChunks, row, place);
  }
};

struct DirectValues {
  static constexpr int kRowChunks = kValueDim / kChunk;
  static constexpr int kPitch = kRowChunks;
  static constexpr int kPeriod = 4;
  static HF_MEMBER int chunk_at(int row, int place) {
    return cdna::direct_value_chunk(kRowChunks, row, place);
  }
};

struct DirectTiles {
  using Keys = DirectLoader<DirectKeys>;
  using Values = DirectLoader<DirectValues>;
  static constexpr int kKeyBytes = Keys::kBytes;
  static constexpr int kStageBytes = kKeyBytes + Values::kBytes;
  static constexpr int kSharedBytes = 2 * kStageBytes;
  static constexpr int kPieces = Keys::kPieces + Values::kPieces;

  Keys next_keys;
  Values next_values;
  char* keys;  // of the first stage
  char* values;
  SharedPlace to;  // where the wave's part of the next tile goes
  int forward;     // from this tile's stage to the next one's

  HF_MEMBER void start(const AttentionArgs& args, const Rows& key_rows, const Rows& value_rows, int,
                       KeyRange, char* shared) {
    keys = shared;
    to = shared_place(shared + wave_id() * kWave * 16);
    values = shared + kKeyBytes;
    forward = kStageBytes;
    next_keys.start(key_rows, head_dim(args));
    next_values.start(value_rows, value_dim(args));
  }
  HF_MEMBER void next() {
    next_keys.next();
    next_values.next();
  }
  HF_MEMBER void load(int i) {
    if (i < Keys::kPieces) {
      next_keys.load(to, i);
    } else {
      next_values.load(to + kKeyBytes, i - Keys::kPieces);
    }
  }
  HF_MEMBER void load_first() {
    next();
    HF_UNROLL for (int i = 0; i < kPieces; i++) load(i);
    to += kStageBytes;
  }
  HF_MEMBER int turn() {
    const int by = forward;
    to -= by;
    forward = -by;
    return by;
  }

  template <class Seen>
  HF_MEMBER void before_keys(Seen&&) {
    wait_for_loads();
    barrier();
  }
  HF_MEMBER void next_addresses_of_values() { next(); }
  template <int Steps>
  HF_MEMBER void beside_keys(int j) {
    HF_UNROLL for (int i = 0; i < kPieces; i++) {
      if (step_of(i, kPieces, 0, Steps, Steps) == j) load(i);
    }
  }
  HF_MEMBER void after_keys() {}
  HF_MEMBER void before_values() {}
  HF_MEMBER void next_addresses_of_keys() {}
  template <int Steps>
  HF_MEMBER void beside_values(int) {}
  HF_MEMBER int after_values() { return turn(); }

  template <class Seen>
  HF_MEMBER int idle(Seen&&) {
    wait_for_loads();
    barrier();
    next();
    HF_UNROLL for (int i = 0; i < kPieces; i++) load(i);
    return turn();
  }
  // Nothing may arrive in memory that the block no longer has.
  HF_MEMBER void end() { wait_for_loads(); }
};

// ---- fragments ----------------------------------------------------------------------------------

// Where a lane finds its chunks of a K fragment: kRows keys, one slab of the head dimension.
struct DirectKeyFragments {
  static constexpr int kRowChunks = DirectKeys::kRowChunks, kPitch = DirectKeys::kPitch * 16;
  static constexpr int kChunks = kRowChunks < 8 ? kRowChunks : 8;
  static constexpr bool kSwizzled = kPitch == kRowChunks * 16;
  static constexpr int kSpread = kSwizzled ? kChunks / kGroups : 1;  // different addresses
  static constexpr bool kHalves = kSwizzled && kRowChunks % 16 == 0;
  static constexpr int kCount = kKeyBlocks * kHeadSlabs;
  const char* at[kSpread];
  int other_half;  // of 16 chunks that change places, from each

  HF_MEMBER void start(const char* shared) {
    const int row = lane_id() % kRows, group = lane_id() / kRows;
    HF_UNROLL for (int i = 0; i < kSpread; i++) {
      at[i] = shared + row * kPitch + DirectKeys::chunk_at(row, i * kGroups + group) * 16;
    }
    other_half = row / 8 % 2 ? -128 : 128;
  }
  HF_MEMBER void move(int bytes) { HF_UNROLL for (int i = 0; i < kSpread; i++) at[i] += bytes; }
  HF_MEMBER u32x4 read(int block, int slab) const {
    const int turn = slab / kSpread;  // of the addresses
    const char* const first = at[slab % kSpread] + (kHalves && turn % 2 ? other_half : 0);
    return *reinterpret_cast<const u32x4*>(
        first + (kHalves ? turn / 2 * 2 : turn) * kSpread * kGroups * 16 + block * kRows * kPitch);
  }
};

// Where a lane finds its part of a V fragment: 32 value dims, one slab of keys. A transposing read
// gives each of 16 lanes four keys of one of 16 dims; these four come in eight bytes from each of
// four lanes. The second read has the keys 8 further on, as the scores of a lane have them.
//
// The pieces of four dims that a lane's results come from lie such that a lane ends with eight
// consecutive dims: pieces 0 to 3 of 16 lanes are dims 0, 8, 4, 12.
struct DirectValueFragments {
  static constexpr int kRowChunks = DirectValues::kRowChunks, kPitch = kRowChunks * 16;
  static constexpr int kBlockChunks = 32 / kChunk;
  static constexpr int kSpread = kRowChunks % 16 == 0 ? 4 : kRowChunks % 8 == 0 ? 2 : 1;
  static constexpr int kCount = kKeySlabs * kDimBlocks;
  const char* at[kSpread];

  HF_MEMBER void start(const char* shared) {
    const int lane = lane_id() % 16, key = first_key_of_lane() + lane / 4;
    const int dim = lane_id() / 16 % 2 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
    HF_UNROLL for (int i = 0; i < kSpread; i++) {
      const int chunk = DirectValues::chunk_at(key, i * kBlockChunks + dim / kChunk);
      at[i] = shared + key * kPitch + chunk * 16 + dim % kChunk * kElementBytes;
    }
  }
  HF_MEMBER void move(int bytes) { HF_UNROLL for (int i = 0; i < kSpread; i++) at[i] += bytes; }
  HF_MEMBER u32x4 read(int slab, int block) const {
    const char* const first =
        at[block % kSpread] + block / kSpread * kSpread * kBlockChunks * 16 + slab * kSlab * kPitch;
    const u32x2 low = read_transposed(first), high = read_transposed(first + 4 * kGroups * kPitch);
    return u32x4{low[0], low[1], high[0], high[1]};
  }

  // As in StagedValueFragments.
  template <class Store>
  static HF_MEMBER void for_each_run(const OutputTile& tile, Store&& store) {
    HF_UNROLL for (int b = 0; b < kDimBlocks; b++) {
      HF_UNROLL for (int r = 0; r < kResults; r += kChunk) {
        float run[kChunk];
        HF_UNROLL for (int i = 0; i < kChunk; i++) run[i] = tile.block[b][r + i];
        store(32 * b + 2 * r + 2 * first_key_of_lane(), run);
      }
    }
  }
};

}  // namespace hipflash
