// Bias and mask: one number per (batch, head, query, key), at any strides.
#pragma once

namespace hipflash {

// Keys past the end have no cell; their scores are hidden afterwards, so any cell will do.
template <bool kEdge>
HF_DEVICE long long cell_offset(const CellStrides& stride, const AttentionArgs& args, int key) {
  if constexpr (kEdge) key = key < args.seq_k ? key : args.seq_k - 1;
  return key * stride.key;
}

// Adds the bias of one query and of as many keys, from `key` on, as the vector holds.
template <bool kEdge, class Scores>
HF_DEVICE void add_bias(Scores& s, const AttentionArgs& args, int batch, int head, int query,
                        int key) {
  constexpr int kCount = sizeof(Scores) / sizeof(float);
  if (!args.bias) return;
  const CellStrides& stride = args.bias_stride;
  const long long row = batch * stride.batch + head * stride.head + query * stride.query;
  if (args.bias_type == ElementType::f32) {
    const float* bias = static_cast<const float*>(args.bias) + row;
    HF_UNROLL
    for (int r = 0; r < kCount; r++) s[r] += bias[cell_offset<kEdge>(stride, args, key + r)];
  } else {
    const u16* bias = static_cast<const u16*>(args.bias) + row;
    const bool is_f16 = args.bias_type == ElementType::f16;
    HF_UNROLL
    for (int r = 0; r < kCount; r++) {
      const u16 cell = bias[cell_offset<kEdge>(stride, args, key + r)];
      s[r] += is_f16 ? f16_to_float(cell) : bf16_to_float(cell);
    }
  }
}

// Hides what the bool mask hides.
template <bool kEdge, class Scores>
HF_DEVICE void apply_mask(Scores& s, const AttentionArgs& args, int batch, int head, int query,
                          int key, float hidden) {
  constexpr int kCount = sizeof(Scores) / sizeof(float);
  if (!args.mask) return;
  const CellStrides& stride = args.mask_stride;
  const unsigned char* mask =
      args.mask + batch * stride.batch + head * stride.head + query * stride.query;
  HF_UNROLL
  for (int r = 0; r < kCount; r++) {
    s[r] = mask[cell_offset<kEdge>(stride, args, key + r)] ? s[r] : hidden;
  }
}

}  // namespace hipflash
