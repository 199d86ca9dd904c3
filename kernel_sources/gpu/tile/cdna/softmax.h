// The softmax between the two products, one query per lane.
//
// Exponents are in base 2 and relative to a reference, the row's maximum of some time ago. The
// reference moves only when an exponent has grown past what P can hold, so in most tiles no lane
// needs another lane's maximum and the output is not rescaled.
#pragma once

namespace hipflash {

// P is cut to 16 bits by truncation, one instruction per pair. That takes 0.72 half units in the
// last place on average: so much is added to every exponent, which is free, and the final factor
// takes it back. f16 P is also raised by 2^7, up to 2^15, which keeps small probabilities out of
// the subnormal numbers, which gfx90a's products flush.
constexpr float kTruncation = kF32 ? 0.0f : kF16 ? 0.00050715f : 0.0040573f;    // log2
constexpr float kUntruncation = kF32 ? 1.0f : kF16 ? 1.00035159f : 1.0028163f;  // 2^kTruncation
constexpr float kRaise = kTruncation + (kF16 ? 7.0f : 0.0f);
constexpr float kSlack = 8.0f;      // growth of exponents that the reference tolerates
constexpr float kUnset = -3.4e38f;  // tolerance of a row that has seen no key: anything moves it

// The keys of a tile that a lane's query sees, less the lane's share: as key_of_score() counts.
struct SeenKeys {
  int first, end;
};

struct Softmax {
  float exponent[kScores];
  u32 p[kScores * kElementBytes / 4];  // as the second product takes it
  float reference, tolerance;
  float largest;  // exponent of this tile in this lane
  float sum;      // this lane's part of the row sum

  HF_MEMBER void start() {
    reference = 0.0f;
    tolerance = kUnset;
    sum = 0.0f;
  }

  // Scores first..end-1 of a tile to exponents. Where single keys may be hidden or biased, the
  // exponents come in as what ScoreModifier::load() found. The maximum is taken after the
  // multiply-add: its results are canonical, and a negative scale is as good as a positive one.
  template <bool Masked, class Score>
  HF_MEMBER void take(Score&& score, int first, int end, float scale, SeenKeys seen) {
    const float shift = kRaise - reference;
    HF_UNROLL for (int f = first; f < end; f++) {
      const bool hidden = kElementwise && exponent[f] == -kInfinity;
      float x = hf_fma(score(f), scale, shift);
      if (hidden) x = -kInfinity;
      if constexpr (Masked) {
        const int key = key_of_score(f);
        x = key >= seen.end ? -kInfinity : x;
        if constexpr (Spec::window_left) x = key < seen.first ? -kInfinity : x;
      }
      exponent[f] = x;
    }
    HF_UNROLL for (int f = first; f < end; f += 2) {
      // (in this order one instruction takes three)
      largest = hf_max(f == 0 ? exponent[f] : hf_max(largest, exponent[f]), exponent[f + 1]);
    }
  }

  // Moves the reference where it must. A row's first key sets it, so small scores do not vanish.
  HF_MEMBER void rescale(OutputTile& output) {
    if (__builtin_expect(!any_lane(largest > tolerance), 1)) return;
    const float most = row_max(largest) - kRaise;
    const bool unset = tolerance<0.0f, seen = most> - kInfinity;
    const float growth = unset ? (seen ? most : 0.0f) : hf_max(most, 0.0f);
    const float factor = unset ? 1.0f : hf_exp2(-growth);
    if (seen) tolerance = kSlack + kRaise;
    reference += growth;
    sum *= factor;
    HF_UNROLL for (int f = 0; f < kScores; f++) exponent[f] -= growth;
    scale_rows(output, factor);
  }

  // Exponents first..end-1 to P, and their sum.
  HF_MEMBER void exp2(int first, int end) {
    HF_UNROLL for (int f = first; f < end; f += 2) {
      const float x = hf_exp2(exponent[f]), y = hf_exp2(exponent[f + 1]);
      if constexpr (kF32) {
        p[f] = bits(x);
        p[f + 1] = bits(y);
      } else {
        p[f / 2] = kF16 ? pack_f16_toward_zero(x, y) : pack_bf16_toward_zero(x, y);
      }
      sum += x;
      sum += y;
    }
  }

  // The operand of the second product for key slab i.
  HF_MEMBER u32x4 slab(int i) const {
    return u32x4{p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3]};
  }
};

// What is left of a row at the end.
struct RowResult {
  float factor;  // of the output
  float lse;     // natural logarithm
};

HF_DEVICE RowResult finish(const Softmax& softmax) {
  const float sum = row_sum(softmax.sum);
  const bool any = !(sum == 0.0f);  // NaN counts
  return {any ? kUntruncation / sum : 0.0f,
          any ? (softmax.reference + hf_log2(sum) - kRaise) * kLn2 : -kInfinity};
}

}  // namespace hipflash
