// Ragged calls on NVIDIA: which sequence a block works for, keys in pages, attention sinks.
#pragma once

namespace hipflash {

// As work_of(), of a call whose sequences have lengths of their own. `batch` is the sequence, whose
// arguments_of_sequence() say whether the tile's rows exist. Tiles of a head follow one another, so
// that the keys of a sequence are read while they are in the L2; later tiles, which see more keys
// under a causal mask, come first.
template <int kRows, bool kPack>
HF_DEVICE Work ragged_work_of(const AttentionArgs& args, int index, int chunks) {
  const int group = args.heads_q / args.heads_kv;
  const int heads = kPack ? args.heads_kv : args.heads_q, rows_per_query = kPack ? group : 1;
  const int parts = chunks * (Spec::split_keys ? max(args.splits, 1) : 1);
  const int part = index % parts;
  index /= parts;
  const int numbers = gridDim.x / (parts * heads);
  const int h = index / numbers, number = numbers - 1 - index % numbers;
  int tile;
  Work work;
  if (args.cu_seqlens_q) {
    const PackedTile packed = packed_tile_of(args, number, kRows, rows_per_query);
    work.batch = packed.sequence;
    tile = packed.tile;
  } else {
    const int tiles = ceil_div(args.seq_q * rows_per_query, kRows);
    work.batch = number / tiles;
    tile = number % tiles;
  }
  work.head = kPack ? h * group : h;
  work.kv_head = kPack ? h : h / group;
  work.row = tile * kRows;
  work.chunk = part % chunks;
  work.split = part / chunks;
  return work;
}

// Keeps what masks need to know of a sequence in bytes 20 to 31 beside a kept piece, and reads it
// back after a barrier: arguments that are no launch constants cost registers.
HF_DEVICE void keep_sequence(unsigned at, const AttentionArgs& one) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + 20), "r"(one.seq_q) : "memory");
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at + 24), "r"(one.seq_k), "r"(one.diagonal)
               : "memory");
}
HF_DEVICE AttentionArgs kept_sequence(unsigned at, AttentionArgs one) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(one.seq_q) : "r"(at + 20));
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(one.seq_k), "=r"(one.diagonal)
               : "r"(at + 24));
  one.alibi_diagonal = one.seq_k - one.seq_q;
  return one;
}

// Where the keys of a step are, when they are in pages: lane l of each warp knows keys l + 32 i.
template <int kKeys>
struct PagedKeys {
  static constexpr int kMine = (kKeys + 31) / 32;
  int page[kMine], position[kMine];

  // Keys outside of first..end-1 are not looked up.
  HF_DEVICE void look_up(const AttentionArgs& args, int first_key, int first, int end) {
    HF_UNROLL
    for (int i = 0; i < kMine; i++) {
      const int key = first_key + 32 * i + (int)(threadIdx.x & 31);
      page[i] = position[i] = 0;
      if (key >= first && key < end) {
        const int at = args.first_position + key, index = at / args.page_size;
        page[i] = page_at(args, index);
        position[i] = at - index * args.page_size;
      }
    }
  }

  // Elements to the row of key `row` of the step. All lanes of the warp ask together, each for a
  // row of its own.
  HF_DEVICE long long offset(const RowStrides& stride, int row) const {
    int from_page = 0, from_position = 0;
    HF_UNROLL
    for (int i = 0; i < kMine; i++) {
      const int p = __shfl_sync(~0u, page[i], row & 31),
                x = __shfl_sync(~0u, position[i], row & 31);
      if (row / 32 == i) {
        from_page = p;
        from_position = x;
      }
    }
    return from_page * stride.batch + from_position * stride.seq;
  }
};

// The result of a row of query head `head`. Partial results are joined with the sink when they are
// merged. A sequence that cannot be right gives NaN.
HF_DEVICE RowResult finish_row(const AttentionArgs& args, int head, float reference, float sum,
                               int fault) {
  if (Spec::ragged && fault != kNoFault) {
    const float nan = __int_as_float(0x7fffffff);
    return {nan, nan};
  }
  if constexpr (Spec::sinks) {
    if (args.sinks && !(Spec::split_keys && args.splits > 1)) {
      return join_sink(reference, sum, args.sinks[head]);
    }
  }
  return result_of_row(reference, sum);
}

}  // namespace hipflash
