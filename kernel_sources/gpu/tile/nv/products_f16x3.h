// The two products of attention_forward_nvf16x3.cu, on the matrix units and by multiply-adds.
// Included where the family's sizes are known.
//
// The units cut sums off where f32 rounds, and thousands of such steps add up. So small products
// are summed apart from or before the large ones, and no sum in the units is longer than a head
// dimension or a tile of keys; what they give is added in f32.
#pragma once

namespace hipflash {

using ScoreTile = float[kRowTiles][kKeys / 2];
// What a warp accumulates of the output, and P: register 4n + 2h + e of tile i is row
// 16i + 8h + lane/4, column 8n + 2(lane%4) + e.
using OutTile = float[kRowTiles][kValueDim / 2];

// S = Q . K^T. `q` and `k` are where this lane reads for ldmatrix; the factors of its rows and
// columns begin at `row_factors` and `column_factors`.
HF_DEVICE void multiply_keys(ScoreTile& s, unsigned q, unsigned k, unsigned row_factors,
                             unsigned column_factors) {
  ScoreTile small;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] = small[i][n] = 0.0f;
  }
  constexpr int kUnroll = kHeadDim <= 64 ? 4 : 2;
#pragma unroll kUnroll
  for (int c = 0; c < kHeadDim / 16; c++) {
    Pair a[kRowTiles];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) read_pair<QTile>(a[i], q, i, c);
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      Pair b;
      read_pair<KTile>(b, k, n, c);
      // Products that add to the same sum would wait for one another, so they alternate.
      HF_UNROLL
      for (int product = 0; product < 3; product++) {
        ScoreTile& sum = product == 1 ? s : small;
        HF_UNROLL
        for (int e = 0; e < 2; e++) {
          HF_UNROLL
          for (int i = 0; i < kRowTiles; i++) {
            const unsigned(&x)[4] = product == 0 ? a[i].low : a[i].high;
            const unsigned(&y)[4] = product == 2 ? b.low : b.high;
            mma_of<false>(&sum[i][8 * n + 4 * e], x, y[2 * e], y[2 * e + 1]);
          }
        }
      }
    }
  }
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] += small[i][n];
  }
  float of_row[kRowTiles][2];
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int h = 0; h < 2; h++) of_row[i][h] = load_float(row_factors + 4 * (16 * i + 8 * h));
  }
  HF_UNROLL
  for (int n = 0; n < kKeys / 8; n++) {
    const float2 of_column = load_pair(column_factors + 32 * n);
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int h = 0; h < 2; h++) {
        float& x = s[i][4 * n + 2 * h];
        float& y = s[i][4 * n + 2 * h + 1];
        x *= of_row[i][h] * of_column.x;
        y *= of_row[i][h] * of_column.y;
      }
    }
  }
}

// The same of rows that were not split, by multiply-adds. `q` is this lane's first row, `k` its
// first key.
HF_DEVICE void multiply_keys_exactly(ScoreTile& s, unsigned q, unsigned k) {
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] = 0.0f;
  }
#pragma unroll 1
  for (int c = 0; c < kHeadDim; c++) {
    float a[kRowTiles][2];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int h = 0; h < 2; h++)
        a[i][h] = load_float(q + (16 * i + 8 * h) * QTile::kPitch + 4 * c);
    }
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      HF_UNROLL
      for (int e = 0; e < 2; e++) {
        const float b = load_float(k + (8 * n + e) * KTile::kPitch + 4 * c);
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          HF_UNROLL
          for (int h = 0; h < 2; h++)
            s[i][4 * n + 2 * h + e] = fmaf(a[i][h], b, s[i][4 * n + 2 * h + e]);
        }
      }
    }
  }
}

// The same address, but not before these outputs are known. The compiler would rather begin all
// products at once and run out of registers. `zero` is 0, which it does not know.
HF_DEVICE unsigned after(unsigned address, const OutTile& out, int piece, unsigned zero) {
  unsigned bits = 0;
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int e = 0; e < 8; e++) bits |= __float_as_uint(out[i][8 * piece + e]);
  }
  return address | (bits & zero);
}

// O += P . V. `v` is where this lane reads for ldmatrix, its keys' factors begin at `factors`.
// `seen` has bit 2n + e for key 8n + 2(lane%4) + e if some row of the warp sees it; the values of
// others do not count, whatever they are. Destroys P.
//
// The factor of a key goes to its column of P, and each row of that is split with a power of two of
// its own, so that what counts most in the tile has all its bits, however the sizes of values
// differ.
HF_DEVICE void multiply_values(OutTile& out, ScoreTile& p, unsigned v, unsigned factors,
                               unsigned seen) {
  float of_row[kRowTiles][2];
  Pair a[kRowTiles][kKeys / 16];
  HF_UNROLL
  for (int n = 0; n < kKeys / 8; n++) {
    const float2 of_key = load_pair(factors + 32 * n);
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int h = 0; h < 2; h++) {
        p[i][4 * n + 2 * h] *= of_key.x;
        p[i][4 * n + 2 * h + 1] *= of_key.y;
      }
    }
  }
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    float largest[2];
    row_max(p[i], 1.0f, largest);
    HF_UNROLL
    for (int h = 0; h < 2; h++) {
      const PowerOfTwo power = power_for(quad_max(largest[h]));
      of_row[i][h] = power.inverse;
      HF_UNROLL
      for (int n = 0; n < kKeys / 8; n++) {
        Pair& of_block = a[i][n / 2];
        split(p[i][4 * n + 2 * h] * power.factor, p[i][4 * n + 2 * h + 1] * power.factor,
              of_block.high[n % 2 * 2 + h], of_block.low[n % 2 * 2 + h]);
      }
    }
  }
  const unsigned zero = __float_as_uint(of_row[0][0]) & 0x80000000u;
  HF_UNROLL
  for (int m = 0; m < kValueDim / 16; m++) {
    Pair b[kKeys / 16];
    constexpr int kAhead = 2;  // pieces under way
    const unsigned from = m < kAhead ? v : after(v, out, m - kAhead, zero);
    HF_UNROLL
    for (int n = 0; n < kKeys / 16; n++) {
      read_pair<VTile, true>(b[n], from, n, m);
      if constexpr (kElementwise) {
        HF_UNROLL
        for (int e = 0; e < 4; e++) {
          const unsigned bits = seen >> (4 * n + 2 * (e % 2));
          const unsigned keep = (bits & 1 ? 0xffffu : 0u) | (bits & 2 ? 0xffff0000u : 0u);
          b[n].high[e] &= keep;
          b[n].low[e] &= keep;
        }
      }
    }
    float part[kRowTiles][8];
    HF_UNROLL
    for (int product = 0; product < 3; product++) {  // the large ones last
      HF_UNROLL
      for (int n = 0; n < kKeys / 16; n++) {
        HF_UNROLL
        for (int e = 0; e < 2; e++) {
          HF_UNROLL
          for (int i = 0; i < kRowTiles; i++) {
            const unsigned(&x)[4] = product == 0 ? a[i][n].low : a[i][n].high;
            const unsigned(&y)[4] = product == 1 ? b[n].low : b[n].high;
            mma(product == 0 && n == 0, &part[i][4 * e], x, y[2 * e], y[2 * e + 1]);
          }
        }
      }
    }
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int e = 0; e < 8; e++)
        out[i][8 * m + e] = fmaf(part[i][e], of_row[i][e / 2 % 2], out[i][8 * m + e]);
    }
  }
}

// The same of rows that were not split, by multiply-adds. `v` is what this lane reads of the first
// key.
HF_DEVICE void multiply_values_exactly(OutTile& out, const ScoreTile& p, unsigned v,
                                       unsigned seen) {
#pragma unroll 1
  for (int key = 0; key < kKeys; key++) {
    const int owner = (threadIdx.x & 28) | key % 8 / 2;  // of this key's probabilities in the rows
    float a[kRowTiles][2];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int h = 0; h < 2; h++) {
        float mine = 0.0f;
        HF_UNROLL
        for (int n = 0; n < kKeys / 8; n++) {
          const float even = p[i][4 * n + 2 * h], odd = p[i][4 * n + 2 * h + 1];
          if (n == key / 8) mine = key % 2 ? odd : even;
        }
        a[i][h] = __shfl_sync(~0u, mine, owner);
      }
    }
    const bool counts =
        !kElementwise || (__shfl_sync(~0u, seen, owner) >> (key / 8 * 2 + key % 2) & 1);
    HF_UNROLL
    for (int m = 0; m < kValueDim / 8; m++) {
      float2 b = load_pair(v + key * VTile::kPitch + 32 * m);
      if (!counts) b = make_float2(0.0f, 0.0f);
      HF_UNROLL
      for (int i = 0; i < kRowTiles; i++) {
        HF_UNROLL
        for (int h = 0; h < 2; h++) {
          float& even = out[i][4 * m + 2 * h];
          float& odd = out[i][4 * m + 2 * h + 1];
          even = fmaf(a[i][h], b.x, even);
          odd = fmaf(a[i][h], b.y, odd);
        }
      }
    }
  }
}

}  // namespace hipflash
