// Tiles that go through registers: global memory to registers to shared memory.
//
// K lies in shared memory in rows of head dims, V transposed in rows of keys; both so that a
// fragment is one 16-byte read per lane, and so that every access of a wave spreads evenly over the
// banks.
#pragma once

namespace hipflash {

// ---- K ------------------------------------------------------------------------------------------

// One thread's chunks of a K tile.
struct KeyLoader {
  static constexpr int kRowChunks = kHeadDim / kChunk;
  static constexpr int kPieces = cdna::key_pieces(kTile, kHeadDim, kElementBytes);
  static constexpr int kPitch = cdna::key_pitch(kHeadDim, kElementBytes) * 16;
  static constexpr bool kSwizzled = cdna::swizzled_keys(kHeadDim, kElementBytes);
  static constexpr bool kRegular = kThreads % kRowChunks == 0 && kThreads / kRowChunks % 8 == 0;

  Rows rows;  // from the next tile on
  PagedRows<kKeys> pages;
  int dim;
  Buffer buffer;
  Address from[kPieces];  // with pages; else buffer and offset
  int offset[kPieces], place[kPieces];
  u32x4 piece[kPieces];

  static HF_MEMBER int row_of(int i) { return (thread_id() + i * kThreads) / kRowChunks; }
  static HF_MEMBER int chunk_of(int i) { return (thread_id() + i * kThreads) % kRowChunks; }
  static HF_MEMBER int place_of(int row, int chunk) {
    return cdna::key_place(kHeadDim, kElementBytes, row, chunk);
  }

  HF_MEMBER void start(const Rows& all, int head_dim) {
    rows = all;
    dim = head_dim;
    HF_UNROLL for (int i = 0; i < kPieces; i++) {
      const int row = row_of(i), chunk = chunk_of(i);
      place[i] = place_of(row, chunk);
      offset[i] = row * static_cast<int>(rows.stride) + chunk * 16;
      const bool past_row = kHeadDim != Spec::head_dim && chunk * kChunk >= dim;
      const bool past_tile = kPieces * kThreads > kKeys * kRowChunks && row >= kKeys;
      if (past_row || past_tile) offset[i] = kNowhere;
    }
  }

  // Makes the next tile the one that load() takes from.
  HF_MEMBER void next() {
    if constexpr (kVectors && Spec::paged) {
      pages.next();
      HF_UNROLL for (int i = 0; i < kPieces; i++) {
        const Address row = pages.address(row_of(i));
        const bool past_row = kHeadDim != Spec::head_dim && chunk_of(i) * kChunk >= dim;
        from[i] = past_row ? zero_row() : row + static_cast<Address>(chunk_of(i) * 16);
      }
    } else if constexpr (kVectors) {
      buffer = buffer_of(rows, dim, kKeys);
      rows.base += kKeys * rows.stride;
      rows.count -= kKeys;
    }
  }
  HF_MEMBER void load(int i) {
    if constexpr (kVectors && Spec::paged) {
      piece[i] = load_at<u32x4>(from[i]);
    } else if constexpr (kVectors && kRegular) {  // all offsets from one register
      constexpr u32 kStep = kThreads / kRowChunks;
      // Wraps from nowhere on, to where nothing is either.
      const u32 at = static_cast<u32>(offset[0]) + i * kStep * static_cast<u32>(rows.stride);
      piece[i] = load4(buffer, static_cast<int>(at));
    } else if constexpr (kVectors) {
      piece[i] = load4(buffer, offset[i]);
    }
  }
  HF_MEMBER void store(char* shared, int i) {
    constexpr int kStep = kThreads / kRowChunks * kPitch;
    if constexpr (kVectors) {
      *reinterpret_cast<u32x4*>(shared + (kRegular ? place[0] + i * kStep : place[i])) = piece[i];
    }
  }

  // The element path: the next tile to shared memory at once.
  HF_MEMBER void copy(char* shared) {
    if constexpr (!kVectors) {
      if constexpr (Spec::paged) pages.next();
      HF_NO_UNROLL for (int i = 0; i < kPieces; i++) {
        const int row = row_of(i), chunk = chunk_of(i);
        const char* from_row = rows.base + row * rows.stride;
        bool there = row < kKeys && row < rows.count;
        if constexpr (Spec::paged) {
          from_row = pointer_to(pages.address(row));
          there = row < kKeys;
        }
        u32 words[4];
        load_elements<kChunk>(from_row, there, chunk * kChunk, dim, words);
        *reinterpret_cast<u32x4*>(shared + place_of(row, chunk)) =
            u32x4{words[0], words[1], words[2], words[3]};
      }
      rows.base += kKeys * rows.stride;
      rows.count -= kKeys;
    }
  }

  HF_MEMBER void load_all() {
    next();
    HF_UNROLL for (int i = 0; i < kPieces; i++) load(i);
  }
  HF_MEMBER void store_all(char* shared) {
    HF_UNROLL for (int i = 0; i < kPieces; i++) store(shared, i);
    copy(shared);
  }
};

// Where a lane finds its chunks of a K fragment: kRows keys, one slab of the head dimension.
struct StagedKeyFragments {
  static constexpr int kChunks = KeyLoader::kRowChunks < 8 ? KeyLoader::kRowChunks : 8;
  static constexpr int kSpread =
      KeyLoader::kSwizzled ? kChunks / kGroups : 1;  // different addresses
  static constexpr int kCount = kKeyBlocks * kHeadSlabs;
  const char* at[kSpread];

  HF_MEMBER void start(const char* shared) {
    const int row = lane_id() % kRows, group = lane_id() / kRows;
    HF_UNROLL for (int i = 0; i < kSpread; i++) {
      at[i] = shared + KeyLoader::place_of(row, i * kGroups + group);
    }
  }
  HF_MEMBER void move(int) {}
  HF_MEMBER u32x4 read(int block, int slab) const {
    return *reinterpret_cast<const u32x4*>(at[slab % kSpread] +
                                           slab / kSpread * kSpread * kGroups * 16 +
                                           block * kRows * KeyLoader::kPitch);
  }
};

// ---- V ------------------------------------------------------------------------------------------

// One thread's part of a V tile: four keys of kDims consecutive value dims.
//
// Value dim d is row (d % kDims) * kPieces + d / kDims in shared memory, so that the threads of a
// wave read whole rows of V, write different banks, and a lane ends with 4 * kDims consecutive dims
// of the output. Chunk c of a row holds the keys that lane group c % kGroups multiplies with its
// scores of key slab c / kGroups.
struct ValueLoader {
  static constexpr int kPieces = cdna::value_pieces(kTile);  // threads that share a row of V
  static constexpr int kDims = kValueDim / kPieces;
  // (at least one, though direct tiles may be padded to fewer dims and then use none of this)
  static constexpr int kWords = cdna::larger(kDims * kElementBytes / 4, 1);
  static constexpr int kHalves = kChunk / 4;  // groups of four keys in a chunk
  static constexpr int kRowChunks = kKeys / kChunk;
  static constexpr int kPitch = kKeys * kElementBytes;

  // Padding dims may hold anything, but reading them must stay within the row where it is found by
  // its address.
  static constexpr bool kPadded = kValueDim != Spec::value_head_dim;

  Rows rows;
  PagedRows<kKeys> pages;
  int dim;
  Buffer buffer;
  Address from[4];  // of each key, with pages; else buffer and offset
  int offset, place;
  u32 words[4][kWords];  // of each key

  static HF_MEMBER int place_of(int row, int chunk) {
    return cdna::value_place(kTile, kElementBytes, row, chunk);
  }
  static HF_MEMBER int piece() { return thread_id() / kHalves % kPieces; }
  static HF_MEMBER int chunk() { return thread_id() / kHalves / kPieces; }
  static HF_MEMBER int half() { return thread_id() % kHalves; }
  static HF_MEMBER int first_key() {
    return chunk() / kGroups * kSlab + half() * 4 * kGroups + chunk() % kGroups * 4;
  }

  HF_MEMBER void start(const Rows& all, int value_dim) {
    rows = all;
    dim = value_dim;
    offset = first_key() * static_cast<int>(rows.stride) + piece() * kDims * kElementBytes;
    place = place_of(piece(), chunk()) + half() * 8;
  }

  HF_MEMBER void next() {
    if constexpr (kVectors && Spec::paged) {
      pages.next();
      HF_UNROLL for (int e = 0; e < 4; e++) {
        from[e] = pages.address(first_key() + e) +
                  static_cast<Address>(kPadded ? 0 : piece() * kDims * kElementBytes);
      }
    } else if constexpr (kVectors) {
      buffer = buffer_of(rows, dim, kKeys);
      rows.base += kKeys * rows.stride;
      rows.count -= kKeys;
    }
  }
  // Key e of the four. Padding dims may hold anything: they end in output dims that are not stored.
  HF_MEMBER void load(int e) {
    if constexpr (kVectors && Spec::paged && kPadded) {
      const int first = piece() * kDims * kElementBytes, last = dim * kElementBytes - 4;
      HF_UNROLL for (int w = 0; w < kWords; w++) {
        const int at = first + 4 * w;
        words[e][w] = load_at<u32>(from[e] + static_cast<Address>(at < last ? at : last));
      }
    } else if constexpr (kVectors && Spec::paged) {
      constexpr int kWide = kWords % 4 == 0 ? 4 : kWords % 2 == 0 ? 2 : 1;
      HF_UNROLL for (int w = 0; w < kWords; w += kWide) {
        const auto x = load_at<HF_VECTOR(u32, kWide)>(from[e] + static_cast<Address>(4 * w));
        HF_UNROLL for (int i = 0; i < kWide; i++) words[e][w + i] = x[i];
      }
    } else if constexpr (kVectors) {
      constexpr int kQuads = kWords / 4 * 4, kPairs = kWords / 2 * 2;
      const int at = offset + e * static_cast<int>(rows.stride);
      HF_UNROLL for (int w = 0; w < kQuads; w += 4) {
        const u32x4 x = load4(buffer, at + 4 * w);
        HF_UNROLL for (int i = 0; i < 4; i++) words[e][w + i] = x[i];
      }
      HF_UNROLL for (int w = kQuads; w < kPairs; w += 2) {
        const u32x2 x = load2(buffer, at + 4 * w);
        words[e][w] = x[0];
        words[e][w + 1] = x[1];
      }
      if constexpr (kPairs < kWords) {
        fence();  // else joined to a load of three words, which no emulator at hand gets right
        words[e][kPairs] = load1(buffer, at + 4 * kPairs);
      }
    }
  }
  // Value dim i of the piece.
  HF_MEMBER void store(char* shared, int i) {
    if constexpr (kVectors) store_dim(shared, i, words, i);
  }

  // Zeroes keys that no query of the block sees, where they hold NaN or infinity: their probability
  // is 0, but 0 * NaN is not. seen(key) is asked only then, with the key's place in the tile.
  template <class Seen>
  HF_MEMBER void drop_unseen(Seen&& seen) {
    if constexpr (kVectors && kElementwise) drop_unseen_of(words, seen);
  }

  // The element path: the next tile to shared memory at once, a word of each key at a time.
  template <class Seen>
  HF_MEMBER void copy(char* shared, Seen&& seen) {
    if constexpr (!kVectors) {
      constexpr int kCount = 4 / kElementBytes;
      if constexpr (Spec::paged) {
        pages.next();
        HF_UNROLL for (int e = 0; e < 4; e++) from[e] = pages.address(first_key() + e);
      }
      HF_NO_UNROLL for (int w = 0; w < kWords; w++) {
        u32 part[4][1];
        HF_UNROLL for (int e = 0; e < 4; e++) {
          const int key = first_key() + e;
          const char* const row = Spec::paged ? pointer_to(from[e]) : rows.base + key * rows.stride;
          load_elements<kCount>(row, Spec::paged || key < rows.count, piece() * kDims + w * kCount,
                                dim, part[e]);
        }
        if constexpr (kElementwise) drop_unseen_of(part, seen);
        HF_UNROLL for (int i = 0; i < kCount; i++) store_dim(shared, w * kCount + i, part, i);
      }
      rows.base += kKeys * rows.stride;
      rows.count -= kKeys;
    }
  }

  HF_MEMBER void load_all() {
    next();
    HF_UNROLL for (int e = 0; e < 4; e++) load(e);
  }
  template <class Seen>
  HF_MEMBER void store_all(char* shared, Seen&& seen) {
    drop_unseen(seen);
    HF_UNROLL for (int i = 0; i < kDims; i++) store(shared, i);
    copy(shared, seen);
  }

 private:
  // Four keys of value dim `to` of the piece, from place `from` of the words.
  template <int Words>
  HF_MEMBER void store_dim(char* shared, int to, const u32 (&part)[4][Words], int from) const {
    char* const at = shared + place + to * kPieces * kPitch;
    if constexpr (kF32) {
      *reinterpret_cast<u32x4*>(at) =
          u32x4{part[0][from], part[1][from], part[2][from], part[3][from]};
    } else {
      const u32 a = part[0][from / 2], b = part[1][from / 2];
      const u32 c = part[2][from / 2], d = part[3][from / 2];
      *reinterpret_cast<u32x2*>(at) = from % 2 ? u32x2{high_halves(a, b), high_halves(c, d)}
                                               : u32x2{low_halves(a, b), low_halves(c, d)};
    }
  }

  template <int Words, class Seen>
  HF_MEMBER void drop_unseen_of(u32 (&part)[4][Words], Seen&& seen) const {
    constexpr u32 kExponent = kF32 ? 0x7f800000u : kF16 ? 0x7c007c00u : 0x7f807f80u;
    constexpr u32 kLow = kF32 ? kExponent : kExponent & 0xffffu, kHigh = kExponent ^ kLow;
    HF_UNROLL for (int e = 0; e < 4; e++) {
      bool finite = true;
      HF_UNROLL for (int w = 0; w < Words; w++) {
        const u32 x = part[e][w];
        finite = finite && (x & kLow) != kLow && (kF32 || (x & kHigh) != kHigh);
      }
      if (!finite && !seen(first_key() + e)) {
        HF_UNROLL for (int w = 0; w < Words; w++) part[e][w] = 0;
      }
    }
  }
};

// Where a lane finds its chunks of a V fragment: kRows value dims, one slab of keys.
struct StagedValueFragments {
  static constexpr int kSpread = kKeySlabs < 8 / kGroups ? kKeySlabs : 8 / kGroups;
  static constexpr int kCount = kKeySlabs * kDimBlocks;
  const char* at[kSpread];

  HF_MEMBER void start(const char* shared) {
    const int row = lane_id() % kRows, group = lane_id() / kRows;
    HF_UNROLL for (int i = 0; i < kSpread; i++) {
      at[i] = shared + ValueLoader::place_of(row, i * kGroups + group);
    }
  }
  HF_MEMBER void move(int) {}
  HF_MEMBER u32x4 read(int slab, int block) const {
    return *reinterpret_cast<const u32x4*>(at[slab % kSpread] +
                                           slab / kSpread * kSpread * kGroups * 16 +
                                           block * kRows * ValueLoader::kPitch);
  }

  // Calls store(first, values) for the lane's runs of kChunk consecutive value dims of its query.
  template <class Store>
  static HF_MEMBER void for_each_run(const OutputTile& tile, Store&& store) {
    constexpr int kDims = ValueLoader::kDims, kSteps = ValueLoader::kPieces / (4 * kGroups);
    HF_UNROLL for (int r = 0; r < kSteps; r++) {
      HF_UNROLL for (int w = 0; w < 4 * kDims; w += kChunk) {
        float run[kChunk];
        HF_UNROLL for (int i = 0; i < kChunk; i++) {
          const int f = 4 * (kSteps * ((w + i) % kDims) + r) + (w + i) / kDims;
          run[i] = tile.block[f / kResults][f % kResults];
        }
        store((4 * kGroups * r + first_key_of_lane()) * kDims + w, run);
      }
    }
  }
};

// ---- both ---------------------------------------------------------------------------------------

// One tile of K and one of V. In the first phase, which reads K, the next V goes from registers to
// shared memory; in the second, which reads V, the next K does. Registers are filled from global
// memory as soon as they are free, so loads have a whole step to arrive.
struct StagedTiles {
  static constexpr int kKeyBytes = cdna::key_bytes(kTile, kHeadDim, kElementBytes);
  static constexpr int kSharedBytes =
      kKeyBytes + cdna::value_bytes(kTile, kValueDim, kElementBytes);

  KeyLoader next_keys;
  ValueLoader next_values;
  char* keys;
  char* values;

  HF_MEMBER void start(const AttentionArgs& args, const Rows& key_rows, const Rows& value_rows,
                       int kv_head, KeyRange range, char* shared) {
    keys = shared;
    values = shared + kKeyBytes;
    next_keys.start(key_rows, head_dim(args));
    next_values.start(value_rows, value_dim(args));
    if constexpr (Spec::paged) {
      next_keys.pages.start(args, args.k, args.k_stride, kv_head, range.first, range.end);
      next_values.pages.start(args, args.v, args.v_stride, kv_head, range.first, range.end);
    }
  }
  // Before the first step.
  HF_MEMBER void load_first() {
    next_keys.load_all();
    next_values.load_all();
    next_keys.store_all(keys);
    next_keys.load_all();
    barrier();
  }

  // What is done before the products of the first phase of `Steps` steps, beside each, and after.
  template <class Seen>
  HF_MEMBER void before_keys(Seen&& seen) {
    next_values.drop_unseen(seen);
    next_values.copy(values, seen);
  }
  HF_MEMBER void next_addresses_of_values() { next_values.next(); }
  template <int Steps>
  HF_MEMBER void beside_keys(int j) {
    HF_UNROLL for (int i = 0; i < ValueLoader::kDims; i++) {
      if (step_of(i, ValueLoader::kDims, 1, Steps / 2 + 1, Steps) == j) {
        next_values.store(values, i);
      }
    }
    HF_UNROLL for (int e = 0; e < 4; e++) {
      if (step_of(e, 4, Steps / 2 + 1, Steps, Steps) == j) next_values.load(e);
    }
  }
  HF_MEMBER void after_keys() { barrier(); }

  // The same of the second phase.
  HF_MEMBER void before_values() { next_keys.copy(keys); }
  HF_MEMBER void next_addresses_of_keys() { next_keys.next(); }
  template <int Steps>
  HF_MEMBER void beside_values(int j) {
    HF_UNROLL for (int i = 0; i < KeyLoader::kPieces; i++) {
      if (step_of(i, KeyLoader::kPieces, 1, Steps / 2 + 1, Steps) == j) next_keys.store(keys, i);
    }
    HF_UNROLL for (int i = 0; i < KeyLoader::kPieces; i++) {
      if (step_of(i, KeyLoader::kPieces, Steps / 2 + 1, Steps, Steps) == j) next_keys.load(i);
    }
  }
  // Returns how far the next tile lies behind this one in shared memory.
  HF_MEMBER int after_values() {
    barrier();
    return 0;
  }

  // A step without products.
  template <class Seen>
  HF_MEMBER int idle(Seen&& seen) {
    next_values.store_all(values, seen);
    next_values.load_all();
    barrier();
    next_keys.store_all(keys);
    next_keys.load_all();
    barrier();
    return 0;
  }
  HF_MEMBER void end() {}
};

}  // namespace hipflash
