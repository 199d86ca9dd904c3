// Score modifiers and what hides single keys, in the lane's terms: bias and bool mask are read from
// memory, one value for each score.
#pragma once

namespace hipflash {

template <bool Value>
struct Bool {
  static constexpr bool value = Value;
};

HF_DEVICE float load_bias(const AttentionArgs& args, long long at) {
  if (args.bias_type == ElementType::f32) return static_cast<const float*>(args.bias)[at];
  const u16 x = static_cast<const u16*>(args.bias)[at];
  return args.bias_type == ElementType::f16 ? f16_to_float(x) : bf16_to_float(x);
}

struct ScoreModifier {
  long long bias_at, mask_at;  // of the lane's query and key 0
  float slope, distance;       // ALiBi; from key 0

  // Queries past the last one read what the last one does: their results go nowhere.
  HF_MEMBER void start(const AttentionArgs& args, int batch, int head, int query) {
    const long long row = query < args.seq_q ? query : args.seq_q - 1;
    if constexpr (Spec::bias) {
      bias_at = batch * args.bias_stride.batch + head * args.bias_stride.head +
                row * args.bias_stride.query;
    }
    if constexpr (Spec::mask) {
      mask_at = batch * args.mask_stride.batch + head * args.mask_stride.head +
                row * args.mask_stride.query;
    }
    if constexpr (Spec::alibi) {
      slope = alibi_slope(args, batch, head);
      distance = static_cast<float>(query + args.alibi_diagonal);
    }
  }

  // What is added to the lane's scores of a tile; -inf hides a key. `key` is that of score 0.
  HF_MEMBER void load(const AttentionArgs& args, int key, float (&added)[kScores]) const {
    if constexpr (kElementwise) {
      HF_UNROLL for (int f = 0; f < kScores; f++) {
        const int there = key + key_of_score(f);
        const long long j = there < args.seq_k ? there : args.seq_k - 1;
        added[f] = 0.0f;
        if (Spec::bias && args.bias) added[f] = load_bias(args, bias_at + j * args.bias_stride.key);
        if (Spec::mask && args.mask && !args.mask[mask_at + j * args.mask_stride.key]) {
          added[f] = -kInfinity;
        }
      }
    }
  }

  HF_MEMBER float score(const AttentionArgs& args, float raw, int key, int f, float added) const {
    float x = raw;
    if constexpr (kScoreModified) {
      const float away = Spec::alibi ? distance - static_cast<float>(key + key_of_score(f)) : 0.0f;
      x = modify_score(args, raw, Spec::alibi ? slope : 0.0f, away);
    }
    if constexpr (Spec::bias) x += added;
    return x;
  }
};

// True if a row in first..last of a block of this head sees the key. Slow; for the rare tile with
// NaN in V.
HF_DEVICE bool seen_by_any(const AttentionArgs& args, int batch, int first_head, int first,
                           int last, int key) {
  bool any = false;
  for (int row = first; row <= last && !any; row++) {
    const int i = query_of_row(args, row), head = head_of_row(args, first_head, row);
    bool here = sees(visible_keys(args, i), key);
    if (Spec::mask && args.mask && here) {
      here = args.mask[batch * args.mask_stride.batch + head * args.mask_stride.head +
                       i * args.mask_stride.query + key * args.mask_stride.key] != 0;
    }
    if (Spec::bias && args.bias && here) {
      here =
          load_bias(args, batch * args.bias_stride.batch + head * args.bias_stride.head +
                              i * args.bias_stride.query + key * args.bias_stride.key) > -kInfinity;
    }
    any = here;
  }
  return any;
}

}  // namespace hipflash
