// From a raw product q.k to the exponent of the softmax, in base 2.
//
//   score = softcap(scale * q.k) - slope * |distance| + bias,   exponent = score * log2(e)
//
// Plain attention has no modifier: then the scale and log2(e) are one factor, folded into the
// exponential's multiply-add, and nothing here costs anything. F is float or a vector of floats;
// a platform supplies hf_tanh(F) and hf_abs(F) beside the arithmetic operators.
#pragma once

#include "common/logarithms.h"

namespace hipflash {

// True if scores go through modify_score() before the softmax; else they stay raw.
constexpr bool kScoreModified = Spec::softcap || Spec::alibi || Spec::bias;

// What the softmax multiplies its scores by to get exponents of two.
HF_DEVICE float exponent_scale(const AttentionArgs& args) {
  return kScoreModified ? kLog2e : args.scale * kLog2e;
}

// The ALiBi slope of a head, 0 when absent.
HF_DEVICE float alibi_slope(const AttentionArgs& args, int batch, int head) {
  if constexpr (Spec::alibi) {
    if (args.alibi) {
      return args.alibi[batch * args.alibi_batch_stride + head * args.alibi_head_stride];
    }
  }
  return 0.0f;
}

// Everything between the raw product and the softmax except the bias, which is in memory and is
// added by whoever can load it. `distance` is i + alibi_diagonal - j as a float.
template <class F>
HF_DEVICE F modify_score(const AttentionArgs& args, F raw, float slope, F distance) {
  F score = raw * args.scale;
  if constexpr (Spec::softcap) {
    if (args.softcap > 0.0f) score = hf_tanh(score * (1.0f / args.softcap)) * args.softcap;
  }
  if constexpr (Spec::alibi) score = score - hf_abs(distance) * slope;
  return score;
}

}  // namespace hipflash
