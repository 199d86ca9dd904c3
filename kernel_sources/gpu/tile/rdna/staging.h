// K and V of a step on their way: from global memory to registers while the step before computes,
// and from there to shared memory, where V lies transposed. For the tile of a block, which its
// family says: kTile, kAt, kKeys, kDimTiles.
#pragma once

namespace hipflash {

constexpr rdna::WmmaStaging kTo = rdna::wmma_staging(kTile, Spec::head_dim);
constexpr int kKeyPieces = kTo.key_pieces;
constexpr int kRun = kTo.run;
constexpr int kValuePieces = kTo.value_tasks * kRun;
static_assert(kTo.key_step >= 1, "more columns of K than threads");
static_assert(kTo.run_step >= kTo.sharers || kRun == 8, "more columns of V than threads");

HF_DEVICE constexpr int key_offset(int key) {
  return rdna::wmma_key_offset(kGeneration, kAt, key);
}
HF_DEVICE constexpr int value_offset(int dim) {
  return rdna::wmma_value_offset(kGeneration, kAt, dim);
}

using KeyRows = Rows<Spec::head_dim, kKeys>;
using ValueRows = Rows<Spec::value_head_dim, kKeys>;

// A thread's places in K and V, in global and shared memory; the same in every step.
struct Staging {
  KeyRows keys;
  ValueRows values;
  int key_place[kKeyPieces], value_place[kValuePieces];
  int key_store, value_store;
  bool stores_keys, stores_values;
};

HF_DEVICE Staging make_staging(const AttentionArgs& args, int batch, int head_kv, int first_dim,
                               KeyRange keys) {
  Staging at;
  at.keys.start(args, args.k, args.k_stride, batch, head_kv, keys.first, keys.end);
  at.values.start(args, args.v, args.v_stride, batch, head_kv, keys.first, keys.end);
  const int row = rdna::wmma_key_row(kTo, thread_id());
  const int column = rdna::wmma_key_column(kTo, thread_id());
  at.stores_keys = row < kKeys && column < kDimTiles * 16;
  HF_UNROLL
  for (int n = 0; n < kKeyPieces; n++) {
    at.key_place[n] = at.keys.place(row + n * kTo.key_step, column, at.stores_keys);
  }
  at.key_store = kAt.k + key_offset(row) + column * 2;

  const int run = rdna::wmma_value_run(kTo, thread_id());
  const int dim = rdna::wmma_value_dim(kTo, thread_id());
  at.stores_values = run < kTo.runs && dim < kTile.value_slice;
  HF_UNROLL
  for (int n = 0; n < kValuePieces; n++) {
    const int key = (run + n / kRun * kTo.run_step) * kRun + n % kRun;
    at.value_place[n] = at.values.place(key, first_dim + dim, at.stores_values);
  }
  at.value_store = kAt.v + value_offset(dim) + run * kRun * 2;
  return at;
}

struct KeyPieces {
  u32x4 piece[kKeyPieces];
};
struct ValuePieces {
  u32x4 piece[kValuePieces];
};

HF_DEVICE void load(KeyPieces& k, Staging& at, int first_key) {
  const auto tile = at.keys.tile(first_key);
  HF_UNROLL
  for (int n = 0; n < kKeyPieces; n++) k.piece[n] = at.keys.load(tile, at.key_place[n]);
}

HF_DEVICE void load(ValuePieces& v, Staging& at, int first_key) {
  const auto tile = at.values.tile(first_key);
  HF_UNROLL
  for (int n = 0; n < kValuePieces; n++) {
    v.piece[n] = at.values.load(tile, at.value_place[n]);
  }
}

HF_DEVICE void store(char* shared, const Staging& at, const KeyPieces& k) {
  if (kTo.all_keys || at.stores_keys) {
    HF_UNROLL
    for (int n = 0; n < kKeyPieces; n++) {
      *reinterpret_cast<u32x4*>(shared + at.key_store + key_offset(n * kTo.key_step)) = k.piece[n];
    }
  }
}

HF_DEVICE void store_transposed(char* shared, const Staging& at, const ValuePieces& v) {
  if (kTo.all_values || at.stores_values) {
    HF_UNROLL
    for (int n = 0; n < kTo.value_tasks; n++) {
      HF_UNROLL
      for (int j = 0; j < 8; j++) {
        u32 run[kRun / 2];
        HF_UNROLL
        for (int i = 0; i < kRun / 2; i++) {
          const u32 even = v.piece[n * kRun + 2 * i][j / 2];
          const u32 odd = v.piece[n * kRun + 2 * i + 1][j / 2];
          run[i] = j % 2 ? high_halves(even, odd) : low_halves(even, odd);
        }
        char* to = shared + at.value_store + value_offset(j) + n * kTo.run_step * kRun * 2;
        if constexpr (kRun == 8) {
          *reinterpret_cast<u32x4*>(to) = u32x4{run[0], run[1], run[2], run[3]};
        } else if constexpr (kRun == 4) {
          *reinterpret_cast<u32x2*>(to) = u32x2{run[0], run[1]};
        } else {
          *reinterpret_cast<u32*>(to) = run[0];
        }
      }
    }
  }
}

}  // namespace hipflash
