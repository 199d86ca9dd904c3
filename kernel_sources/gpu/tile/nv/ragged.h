// Ragged calls on NVIDIA: which sequence a block works for, keys in pages, attention sinks.
#pragma once

namespace hipflash {

// As work_of(), of a call whose sequences have lengths of their own. `batch` is the sequence, whose
// arguments_of_sequence() say whether the tile's rows exist. Tiles of a head follow one another, so
// that the keys of a sequence are read while they are in the L2; later tiles, which see more keys
// under a causal mask, come first.
template <int kRows, bool kPack>
HF_DEVICE Work ragged_work_of(const AttentionArgs& args, unsigned index, int chunks) {
  const int group = (unsigned)args.heads_q / (unsigned)args.heads_kv;
  const int heads = kPack ? args.heads_kv : args.heads_q, rows_per_query = kPack ? group : 1;
  const unsigned parts = chunks * (Spec::split_keys ? max(args.splits, 1) : 1);
  const unsigned number_head = index / parts, part = index - number_head * parts;
  const unsigned numbers = gridDim.x / (parts * heads);
  const int h = (int)(number_head / numbers);
  const int number = (int)(numbers - 1 - (number_head - h * numbers));
  int tile;
  Work work;
  if (args.cu_seqlens_q) {
    const PackedTile packed = packed_tile_of(args, number, kRows, rows_per_query);
    work.batch = packed.sequence;
    tile = packed.tile;
  } else {
    const int tiles = ceil_div(args.seq_q * rows_per_query, kRows);
    work.batch = tiles == 1 ? number : (int)((unsigned)number / (unsigned)tiles);
    tile = number - work.batch * tiles;
  }
  work.head = kPack ? h * group : h;
  work.kv_head = kPack ? h : h / group;
  work.row = tile * kRows;
  work.chunk = (int)(part % chunks);
  work.split = (int)(part / chunks);
  return work;
}

// Keeps what masks need to know of a sequence in bytes 20 to 31 beside a kept piece, and reads it
// back after a barrier: arguments that are no launch constants cost registers.
HF_DEVICE void keep_sequence(unsigned at, const AttentionArgs& one) {
  store_word(at + 20, one.seq_q);
  store_words(at + 24, one.seq_k, one.diagonal);
}
HF_DEVICE AttentionArgs kept_sequence(unsigned at, AttentionArgs one) {
  load_word(one.seq_q, at + 20);
  load_words(one.seq_k, one.diagonal, at + 24);
  one.alibi_diagonal = one.seq_k - one.seq_q;
  return one;
}

// The page in an entry of a sequence's row of the block table; `args` of arguments_of_sequence().
// An entry that is no page gives -1 and sets args.fault.
HF_DEVICE int page_or_none(const AttentionArgs& args, int index) {
  const int page = args.block_table[index];
  if ((unsigned)page < (unsigned)args.pages) return page;
  if (args.fault) *args.fault = kPageFault;
  return -1;
}

// What is read in place of a page that is none: a row of K or V, NaN in every type.
struct alignas(16) NanRow {
  unsigned word[512];
  constexpr NanRow() : word() {
    for (unsigned& w : word) w = ~0u;
  }
};
// Of the file: NVRTC fills what is static in a function with zeros.
static __device__ constexpr NanRow kNanRow;

// Elements from `from`, a head in page 0, to a row of a page.
HF_DEVICE long long row_in_page(const void* from, const RowStrides& stride, int page, int row) {
  if (page < 0) return ((const char*)&kNanRow - (const char*)from) / kElementBytes;
  return page * stride.batch + row * stride.seq;
}
// The same for key j of a sequence.
HF_DEVICE long long row_of_key(const AttentionArgs& args, const void* from,
                               const RowStrides& stride, int j) {
  const int position = args.first_position + j, index = position / args.page_size;
  return row_in_page(from, stride, page_or_none(args, index), position - index * args.page_size);
}

// Where the keys of a step are, when they are in pages. Page numbers are fetched two steps before
// the keys; a step before, after a barrier that follows publish(), shared memory holds the distance
// of every row from the head in page 0 of K and of V, in elements.
template <int kKeys, int kThreads>
struct PagedKeys {
  static constexpr int kMine = (kKeys + kThreads - 1) / kThreads;
  unsigned table;  // of two steps
  int page[kMine];

  HF_DEVICE static int row_of(int i) { return (int)threadIdx.x + i * kThreads; }
  HF_DEVICE unsigned entry(int step, int row) const {
    return table + (step & 1) * (kKeys * 16) + row * 16;
  }

  // Keys outside of first..end-1 are not looked up.
  HF_DEVICE void fetch(const AttentionArgs& args, int first_key, int first, int end) {
    HF_UNROLL
    for (int i = 0; i < kMine; i++) {
      const int key = first_key + row_of(i);
      const bool exists = key >= first && key < end && row_of(i) < kKeys;
      page[i] = exists ? page_or_none(args, page_of(args, args.first_position + key)) : 0;
    }
  }
  HF_DEVICE void publish(const AttentionArgs& args, int step, int first_key, const void* k,
                         const void* v) const {
    HF_UNROLL
    for (int i = 0; i < kMine; i++) {
      const int at = args.first_position + first_key + row_of(i),
                row = at - page_of(args, at) * args.page_size;
      if (row_of(i) < kKeys) {
        store_longs(entry(step, row_of(i)), row_in_page(k, args.k_stride, page[i], row),
                    row_in_page(v, args.v_stride, page[i], row));
      }
    }
  }
  HF_DEVICE long long key(int step, int row) const { return load_long(entry(step, row)); }
  HF_DEVICE long long value(int step, int row) const { return load_long(entry(step, row) + 8); }

 private:
  // Most page sizes are powers of two, which spare a division.
  HF_DEVICE static int page_of(const AttentionArgs& args, int position) {
    const int size = args.page_size;
    return (size & (size - 1)) == 0 ? position >> (31 - __clz(size)) : position / size;
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

// Stores the result of a block's work, which keep_work() has kept with the sequence for its batch:
// store(arguments, work, fault). What a sequence's arguments are is found anew, so that nothing of
// it is kept over the loop.
template <class Store>
HF_DEVICE void finish_work(const AttentionArgs& launch, const AttentionArgs& args, unsigned kept,
                           Store&& store) {
  Work done = kept_work(kept);
  if constexpr (Spec::ragged) {
    int fault;
    const AttentionArgs one = arguments_of_sequence(launch, done.batch, fault);
    if (fault != kNoFault && launch.fault) *launch.fault = fault;
    done.batch = 0;
    store(one, done, fault);
  } else {
    store(args, done, kNoFault);
  }
}

}  // namespace hipflash
