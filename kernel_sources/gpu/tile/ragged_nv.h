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

// Where the keys of a step are, when they are in pages. Page numbers are fetched two steps before
// the keys; a step before, after a barrier that follows publish(), shared memory holds the distance
// of every row from args.k and args.v, in elements.
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
  HF_DEVICE void fetch(const AttentionArgs& args, int step, int first, int end) {
    HF_UNROLL
    for (int i = 0; i < kMine; i++) {
      const int key = step * kKeys + row_of(i);
      const bool exists = key >= first && key < end && row_of(i) < kKeys;
      page[i] = exists ? page_at(args, page_of(args, args.first_position + key)) : 0;
    }
  }
  HF_DEVICE void publish(const AttentionArgs& args, int step) const {
    HF_UNROLL
    for (int i = 0; i < kMine; i++) {
      const int at = args.first_position + step * kKeys + row_of(i),
                row = at - page_of(args, at) * args.page_size;
      const long long k = page[i] * args.k_stride.batch + row * args.k_stride.seq,
                      v = page[i] * args.v_stride.batch + row * args.v_stride.seq;
      if (row_of(i) < kKeys) {
        asm volatile("st.shared.v2.u64 [%0], {%1, %2};" ::"r"(entry(step, row_of(i))), "l"(k),
                     "l"(v)
                     : "memory");
      }
    }
  }
  HF_DEVICE long long key(int step, int row) const { return distance(entry(step, row)); }
  HF_DEVICE long long value(int step, int row) const { return distance(entry(step, row) + 8); }

 private:
  // Most page sizes are powers of two, which spare a division.
  HF_DEVICE static int page_of(const AttentionArgs& args, int position) {
    const int size = args.page_size;
    return (size & (size - 1)) == 0 ? position >> (31 - __clz(size)) : position / size;
  }
  HF_DEVICE static long long distance(unsigned at) {
    long long x;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(x) : "r"(at) : "memory");
    return x;
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
