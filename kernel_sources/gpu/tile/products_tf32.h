// The two products of attention_forward_nvtf32.cu, on the matrix units and by multiply-adds.
// Included where the family's sizes are known.
#pragma once

namespace hipflash {

// S = Q . K^T. `q` and `k` are what this lane reads for ldmatrix.
HF_DEVICE void multiply_keys(float (&s)[kRowTiles][kKeys / 2], unsigned q, unsigned k) {
  float small[kRowTiles][kKeys / 2];
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] = small[i][n] = 0.0f;
  }
#pragma unroll 4
  for (int c = 0; c < kHeadDim / 8; c++) {
    Parts<4> a[kRowTiles];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      unsigned x[4];
      read_blocks(x, q + 4 * (16 * i * kPitch + 8 * c));
      HF_UNROLL
      for (int e = 0; e < 4; e++) split(__uint_as_float(x[e]), a[i].high[e], a[i].low[e]);
    }
    Parts<2> b[kKeys / 8];
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n += 2) {
      unsigned x[4];
      read_blocks(x, k + 4 * (8 * n * kPitch + 8 * c));
      HF_UNROLL
      for (int e = 0; e < 4; e++) cut(x[e], b[n + e / 2].high[e % 2], b[n + e / 2].low[e % 2]);
    }
    HF_UNROLL
    for (int product = 0; product < kProducts; product++) {
      HF_UNROLL
      for (int n = 0; n < kKeys / 8; n++) {
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          float(&sum)[kRowTiles][kKeys / 2] = product == 2 ? s : small;
          mma_product(product, &sum[i][4 * n], a[i], b[n]);
        }
      }
    }
  }
  HF_UNROLL
  for (int i = 0; i < kRowTiles; i++) {
    HF_UNROLL
    for (int n = 0; n < kKeys / 2; n++) s[i][n] += small[i][n];
  }
}

// The same by multiply-adds. `q` is this lane's first row, `k` its first key.
HF_DEVICE void multiply_keys_exactly(float (&s)[kRowTiles][kKeys / 2], unsigned q, unsigned k) {
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
      for (int h = 0; h < 2; h++) a[i][h] = load_float(q + 4 * ((16 * i + 8 * h) * kPitch + c));
    }
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      HF_UNROLL
      for (int e = 0; e < 2; e++) {
        const float b = load_float(k + 4 * ((8 * n + e) * kPitch + c));
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

// What a warp accumulates of the output. Register 8m + 4e + 2h + x of tile i is row
// 16i + 8h + lane/4, column 16m + 4(lane%4) + 2x + e.
using OutTile = float[kRowTiles][kValueDim / 2];

// O += P . V. `p` and `v` are what this lane reads of the two; `seen` has a bit for each key that
// some row of the warp sees, and the values of others do not count, whatever they are.
HF_DEVICE void multiply_values(OutTile& out, unsigned p, unsigned v, unsigned seen) {
  Parts<4> a[kKeys / 8][kRowTiles];
  HF_UNROLL
  for (int n = 0; n < kKeys / 8; n++) {
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      unsigned x[4];
      read_blocks(x, p + 4 * (16 * i * kPPitch + 8 * n));
      HF_UNROLL
      for (int e = 0; e < 4; e++) split(__uint_as_float(x[e]), a[n][i].high[e], a[n][i].low[e]);
    }
  }
  HF_UNROLL
  for (int m = 0; m < kPieces; m++) {
    float part[kRowTiles][8];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int e = 0; e < 8; e++) part[i][e] = 0.0f;
    }
    HF_UNROLL
    for (int n = 0; n < kKeys / 8; n++) {
      Parts<2> b[2];
      HF_UNROLL
      for (int x = 0; x < 2; x++) {
        float2 pair = load_pair(v + 4 * ((8 * n + 4 * x) * kValuePitch + 16 * m));
        if constexpr (kElementwise) {
          if (!(seen >> (8 * n + 4 * x + threadIdx.x % 4) & 1)) pair = make_float2(0.0f, 0.0f);
        }
        split(pair.x, b[0].high[x], b[0].low[x]);
        split(pair.y, b[1].high[x], b[1].low[x]);
      }
      HF_UNROLL
      for (int product = 0; product < kProducts; product++) {
        HF_UNROLL
        for (int e = 0; e < 2; e++) {
          HF_UNROLL
          for (int i = 0; i < kRowTiles; i++) mma_product(product, &part[i][4 * e], a[n][i], b[e]);
        }
      }
    }
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int e = 0; e < 8; e++) out[i][8 * m + e] += part[i][e];
    }
  }
}

// The same by multiply-adds. `p` is this lane's first row, `v` what it reads of the first key.
HF_DEVICE void multiply_values_exactly(OutTile& out, unsigned p, unsigned v, unsigned seen) {
#pragma unroll 1
  for (int key = 0; key < kKeys; key++) {
    float a[kRowTiles][2];
    HF_UNROLL
    for (int i = 0; i < kRowTiles; i++) {
      HF_UNROLL
      for (int h = 0; h < 2; h++) a[i][h] = load_float(p + 4 * ((16 * i + 8 * h) * kPPitch + key));
    }
    const bool counts = !kElementwise || (seen >> key & 1);
    HF_UNROLL
    for (int m = 0; m < kPieces; m++) {
      HF_UNROLL
      for (int x = 0; x < 2; x++) {
        float2 b = load_pair(v + 4 * (key * kValuePitch + 16 * m + 2 * x));
        if (!counts) b = make_float2(0.0f, 0.0f);
        HF_UNROLL
        for (int i = 0; i < kRowTiles; i++) {
          HF_UNROLL
          for (int h = 0; h < 2; h++) {
            float& even = out[i][8 * m + 2 * h + x];
            float& odd = out[i][8 * m + 4 + 2 * h + x];
            even = fmaf(a[i][h], b.x, even);
            odd = fmaf(a[i][h], b.y, odd);
          }
        }
      }
    }
  }
}

}  // namespace hipflash
