// Attention in float64 over small host tensors, and the same in a 16-bit or f32 type, which tells
// how far a right result may be off.
#pragma once

#include <cstdint>
#include <vector>

#include "common/attention_args.h"

namespace rdna_test {

std::uint16_t to_bits(hipflash::ElementType element, float x);
float from_bits(hipflash::ElementType element, std::uint16_t bits);
float rounded(hipflash::ElementType element, float x);

// One call. Tensors are dense here: q (batch, head, query, dim) and so on, already rounded.
struct Problem {
  hipflash::ElementType element = hipflash::ElementType::f16;
  int batch = 1, heads_q = 1, heads_kv = 1, seq_q = 1, seq_k = 1, head_dim = 64, value_dim = 64;
  int diagonal = 0, window_left = 1 << 30, window_right = 1 << 30;
  float scale = 1.0f, softcap = 0.0f;
  bool alibi = false, bias = false, mask = false;
  std::vector<float> q, k, v, slopes,
      bias_cells;  // slopes per head; cells (batch, head, query, key)
  std::vector<unsigned char> mask_cells;

  int cell(int b, int h, int i, int j) const { return ((b * heads_q + h) * seq_q + i) * seq_k + j; }
  bool sees(int b, int h, int i, int j) const;
};

struct Result {
  std::vector<double> out, lse;
};

// In float64; or, if `low`, with sums in f32 and scores, probabilities and output rounded to the
// element type.
Result attention(const Problem& problem, bool low);

// The field's rule for the largest error of an output (twice, three times with a softcap, what
// plain attention in the element type is off).
double allowed_error(const Problem& problem, const Result& exact);

}  // namespace rdna_test
