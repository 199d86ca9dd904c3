// Attention sinks: one more logit in the denominator of a head's softmax, with no value.
#pragma once

namespace hipflash {

// What is left of a row when its head's sink has joined.
struct SinkResult {
  float factor;  // of the output
  float lse;
};

// `lse` is the row's natural log-sum-exp over its keys.
HF_DEVICE SinkResult join_sink(const AttentionArgs& args, int head, float lse) {
  if constexpr (Spec::sinks) {
    const float sink = args.sinks ? args.sinks[head] : -kInfinity;
    if (sink > -kInfinity) {
      const float ahead = (sink - lse) * kLog2e;      // in base 2
      const float smaller = hf_exp2(-hf_abs(ahead));  // the lesser of the two beside the greater
      const float whole = 1.0f + smaller;
      return {(ahead > 0.0f ? smaller : 1.0f) / whole,
              (ahead > 0.0f ? sink : lse) + hf_log2(whole) * kLn2};
    }
  }
  return {1.0f, lse};
}

}  // namespace hipflash
