// Rows in global memory, and Q from there to registers.
#pragma once

namespace hipflash {

// ---- elements -----------------------------------------------------------------------------------

HF_DEVICE u32 load_element(const char* p) {
  return kF32 ? load_at<u32>(address_of(p)) : load_at<u16>(address_of(p));
}

// Elements first..first+count-1 of a row as words; those past `dim` are 0, and so is all of a row
// that is not there.
template <int Count>
HF_DEVICE void load_elements(const char* row, bool there, int first, int dim,
                             u32 (&words)[Count * kElementBytes / 4]) {
  u32 element[Count];
  HF_UNROLL for (int i = 0; i < Count; i++) element[i] = 0;
  if (there && first < dim) {  // one branch; elements past the row read the last one
    HF_UNROLL for (int i = 0; i < Count; i++) {
      const int at = first + i < dim ? first + i : dim - 1;
      const u32 x = load_element(row + at * kElementBytes);
      element[i] = first + i < dim ? x : 0;
    }
  }
  if constexpr (kF32) {
    HF_UNROLL for (int i = 0; i < Count; i++) words[i] = element[i];
  } else {
    HF_UNROLL for (int i = 0; i < Count / 2; i++) words[i] = element[2 * i] | element[2 * i + 1]
                                                                                  << 16;
  }
}

// Rows at a distance, of which the first `count` exist.
struct Rows {
  const char* base;
  long long stride;  // bytes
  int count;
};

HF_DEVICE Rows rows_of(const void* base, RowStrides stride, int batch, int head, int first,
                       int count, int element_bytes) {
  const long long at = batch * stride.batch + head * stride.head + first * stride.seq;
  return {static_cast<const char*>(base) + at * element_bytes, stride.seq * element_bytes, count};
}

HF_DEVICE const char* row_at(const void* base, RowStrides stride, int batch, int head, int row) {
  return static_cast<const char*>(base) +
         (batch * stride.batch + head * stride.head + row * stride.seq) * kElementBytes;
}

// The first `limit` of them through a buffer. (A maximum with 0 would be a vector instruction, and
// the buffer no longer uniform. So the product may wrap, when there are no rows and nobody looks.)
HF_DEVICE Buffer buffer_of(const Rows& rows, int dim, int limit) {
  const int count = rows.count < limit ? rows.count : limit;
  const u32 past_last = static_cast<u32>(count - 1) * static_cast<u32>(rows.stride);
  const int bytes = static_cast<int>(past_last) + dim * kElementBytes;
  return make_buffer(rows.base, count > 0 ? bytes : 0);
}

// The lane's row of Q from anywhere; `there`: it exists.
HF_DEVICE void load_row(QueryTile& tile, const char* row, bool there, int dim) {
  const int group = lane_id() / kRows;
  HF_UNROLL for (int t = 0; t < kHeadSlabs; t++) {
    const int element = (t * kGroups + group) * kChunk;
    u32 words[4] = {0, 0, 0, 0};
    if constexpr (kVectors) {
      if (there && element < dim) {
        const u32x4 x = load_at<u32x4>(address_of(row + element * kElementBytes));
        HF_UNROLL for (int i = 0; i < 4; i++) words[i] = x[i];
      }
    } else {
      load_elements<kChunk>(row, there, element, dim, words);
    }
    tile.slab[t] = u32x4{words[0], words[1], words[2], words[3]};
  }
}

HF_DEVICE void load(QueryTile& tile, const Rows& rows, int dim) {
  const int row = row_of_lane(), group = lane_id() / kRows;
  if constexpr (kVectors) {
    const Buffer buffer = buffer_of(rows, dim, kRows);
    HF_UNROLL for (int t = 0; t < kHeadSlabs; t++) {
      const int element = (t * kGroups + group) * kChunk;
      const int at = row * static_cast<int>(rows.stride) + element * kElementBytes;
      tile.slab[t] = load4(buffer, kHeadDim == Spec::head_dim || element < dim ? at : kNowhere);
    }
  } else {
    load_row(tile, rows.base + row * rows.stride, row < rows.count, dim);
  }
}

}  // namespace hipflash
