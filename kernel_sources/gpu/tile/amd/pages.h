// Keys and values in pages: where the rows of one tile after another lie.
//
// Each lane looks up the page of a row of the next tile, one tile ahead, and hands the row's
// address to the lanes that load from it. So the inner loops know neither pages nor their size, a
// row may lie anywhere in 64 bits, and a load never waits for the table.
#pragma once

namespace hipflash {

// What is read in place of a row past the keys (zeros), and of a row whose page does not exist
// (NaN). As long as the longest row.
struct RowOf {
  u32 word[512];
  constexpr explicit RowOf(u32 x) : word() {
    for (u32& w : word) w = x;
  }
};
HF_TABLE RowOf kZeroRow(0);
HF_TABLE RowOf kNanRow(0xffffffffu);

HF_DEVICE Address zero_row() {
  return address_of(&kZeroRow);
}

// One row of K or V in each of a series of tiles.
struct PagedRow {
  Address table, fault;
  Address base;  // of the head in page 0
  long long page_bytes, row_bytes;
  int first_position, page_size, pages, end;
  int key;         // of the row in the next tile
  int page, slot;  // where that is; page -1: past the keys, -2: nowhere

  // `first` is the row's key in the first tile, `end` the end of the keys.
  HF_MEMBER void start(const AttentionArgs& args, const void* tensor, const RowStrides& stride,
                       int head, int first, int end_of_keys) {
    table = address_of(args.block_table);
    fault = address_of(args.fault);
    base = address_of(tensor) + static_cast<Address>(head * stride.head * kElementBytes);
    page_bytes = stride.batch * kElementBytes;
    row_bytes = stride.seq * kElementBytes;
    first_position = args.first_position;
    page_size = args.page_size;
    pages = args.pages;
    end = end_of_keys;
    key = first;
    look_up();
  }

  // The row's address in the next tile; then looks up where the tile after that has it.
  HF_MEMBER Address next(int tile_keys) {
    Address at = base + static_cast<Address>(page * page_bytes + slot * row_bytes);
    if (page < 0) at = zero_row();
    if (page == kNowherePage) {
      at = address_of(&kNanRow);
      if (fault) store_at<int>(fault, kPageFault);
    }
    key += tile_keys;
    look_up();
    return at;
  }

 private:
  static constexpr int kNowherePage = -2;

  HF_MEMBER void look_up() {
    page = -1;
    slot = 0;
    if (key < end) {
      const int position = first_position + key;
      const int index = static_cast<int>(static_cast<u32>(position) / static_cast<u32>(page_size));
      slot = position - index * page_size;
      page = load_at<int>(table + static_cast<Address>(index) * 4);
      if (static_cast<u32>(page) >= static_cast<u32>(pages)) page = kNowherePage;
    }
  }
};

// The rows of a tile of kTileKeys keys, for the lanes of a wave.
template <int kTileKeys>
struct PagedRows {
  static constexpr int kHeld = (kTileKeys + kWave - 1) / kWave;  // rows that a lane looks up
  PagedRow held[kHeld];
  Address at[kHeld];

  HF_MEMBER void start(const AttentionArgs& args, const void* tensor, const RowStrides& stride,
                       int head, int first, int end) {
    HF_UNROLL for (int i = 0; i < kHeld; i++) {
      held[i].start(args, tensor, stride, head, first + (i * kWave + lane_id()) % kTileKeys, end);
    }
  }
  // Makes the next tile the one that address() speaks of.
  HF_MEMBER void next() {
    HF_UNROLL for (int i = 0; i < kHeld; i++) at[i] = held[i].next(kTileKeys);
  }
  // Of a row of the tile; all lanes of the wave ask together.
  HF_MEMBER Address address(int row) const {
    Address found = lane_read(at[0], row % kWave);
    HF_UNROLL for (int i = 1; i < kHeld; i++) {
      const Address other = lane_read(at[i], row % kWave);
      if (row / kWave == i) found = other;
    }
    return found;
  }
};

}  // namespace hipflash
