// The two matrix products of a warp and what is between them, on mma.sync in f16 and bf16, for the
// tile that the family says: kRowTiles, kKeys, kHeadDim, kValueDim.
#pragma once

namespace hipflash {

// Q: in shared memory, or in registers where they suffice.
struct Queries {
  QReader reader;
  unsigned tile;
  unsigned held[Spec::q_in_registers ? kRowTiles : 1][kHeadDim / 16][4];

  HF_DEVICE void hold() {
    if constexpr (Spec::q_in_registers) {
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        HF_UNROLL
        for (int c = 0; c < kHeadDim / 16; c++) reader.read(held[i][c], tile, i, c);
      }
    }
  }
  HF_DEVICE void fragment(unsigned (&f)[4], int i, int c) const {
    if constexpr (Spec::q_in_registers) {
      HF_UNROLL
      for (int e = 0; e < 4; e++) f[e] = held[i][c][e];
    } else {
      reader.read(f, tile, i, c);
    }
  }
};

// S = Q . K^T
HF_DEVICE void multiply_keys(float (&s)[kRowTiles][kKeys / 2], const Queries& queries,
                             const KReader& reader, unsigned keys) {
  HF_UNROLL
  for (int c = 0; c < kHeadDim / 16; c++) {
    unsigned q[kRowTiles][4];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) queries.fragment(q[i], i, c);
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      unsigned k[4];
      reader.read(k, keys, n, c);
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        if (c == 0) {
          mma_first(&s[i][8 * n], q[i], k[0], k[1]);
          mma_first(&s[i][8 * n + 4], q[i], k[2], k[3]);
        } else {
          mma(&s[i][8 * n], q[i], k[0], k[1]);
          mma(&s[i][8 * n + 4], q[i], k[2], k[3]);
        }
      }
    }
  }
}

// O += P . V for keys 16 block .. +15. `keep` blanks values of keys that no row of the warp sees.
HF_DEVICE void multiply_values(WarpTile& warp, const unsigned (&p)[kRowTiles][4],
                               const VReader& reader, unsigned values, int block,
                               const unsigned (&keep)[2]) {
  HF_UNROLL
  for (int c = 0; c < kValueDim / 16; c++) {
    unsigned v[4];
    reader.read_transposed(v, values, block, c);
    if constexpr (kElementwise) {
      HF_UNROLL
      for (int e = 0; e < 4; e++) v[e] &= keep[e % 2];
    }
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      mma(&warp.out[i][8 * c], p[i], v[0], v[1]);
      mma(&warp.out[i][8 * c + 4], p[i], v[2], v[3]);
    }
  }
}

// P = exp2(S * scale - reference) for keys 16 block .. +15, as an operand fragment; adds to the
// sums.
template <bool kMasked>
HF_DEVICE void exponentials(unsigned (&p)[4], const float (&s)[kKeys / 2], int block,
                            SoftmaxRows& rows, float scale) {
  HF_UNROLL
  for (int h = 0; h < 2; h++) {
    const float reference = finite_reference<kMasked>(rows.reference[h]);
    float x[4];
    HF_UNROLL
    for (int e = 0; e < 4; e++) {
      x[e] = exp2_fast(fmaf(s[8 * block + 4 * (e / 2) + 2 * h + e % 2], scale, -reference));
    }
    rows.sum[h] += (x[0] + x[1]) + (x[2] + x[3]);
    p[h] = pack(x[0], x[1]);
    p[2 + h] = pack(x[2], x[3]);
  }
}

}  // namespace hipflash
