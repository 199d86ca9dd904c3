#include "reference.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace rdna_test {

using hipflash::ElementType;

std::uint16_t to_bits(ElementType element, float x) {
  if (element == ElementType::f16) {
    const _Float16 half = static_cast<_Float16>(x);
    std::uint16_t bits;
    std::memcpy(&bits, &half, 2);
    return bits;
  }
  std::uint32_t word;
  std::memcpy(&word, &x, 4);
  if (x != x) return 0x7fc0;
  return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

float from_bits(ElementType element, std::uint16_t bits) {
  if (element == ElementType::f16) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return static_cast<float>(half);
  }
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &word, 4);
  return x;
}

float rounded(ElementType element, float x) {
  return element == ElementType::f32 ? x : from_bits(element, to_bits(element, x));
}

bool Problem::sees(int b, int h, int i, int j) const {
  const long long at = static_cast<long long>(i) + diagonal;
  if (j < at - window_left || j > at + window_right) return false;
  return !mask || mask_cells[static_cast<std::size_t>(cell(b, h, i, j))] != 0;
}

Result attention(const Problem& p, bool low) {
  const auto round = [&](double x) {
    return low ? static_cast<double>(rounded(p.element, static_cast<float>(x))) : x;
  };
  const auto add = [&](double sum, double x) {  // accumulators are f32
    return low ? static_cast<double>(static_cast<float>(sum + x)) : sum + x;
  };
  Result result;
  const int group = p.heads_kv ? p.heads_q / p.heads_kv : 1;
  for (int b = 0; b < p.batch; b++) {
    for (int h = 0; h < p.heads_q; h++) {
      for (int i = 0; i < p.seq_q; i++) {
        const float* q = &p.q[static_cast<std::size_t>((b * p.heads_q + h) * p.seq_q + i) *
                              static_cast<std::size_t>(p.head_dim)];
        const auto row = [&](const std::vector<float>& from, int j, int dim) {
          return &from[static_cast<std::size_t>((b * p.heads_kv + h / group) * p.seq_k + j) *
                       static_cast<std::size_t>(dim)];
        };
        std::vector<double> score(static_cast<std::size_t>(p.seq_k));
        double top = -std::numeric_limits<double>::infinity();
        for (int j = 0; j < p.seq_k; j++) {
          double& s = score[static_cast<std::size_t>(j)];
          s = -std::numeric_limits<double>::infinity();
          if (!p.sees(b, h, i, j)) continue;
          const float* k = row(p.k, j, p.head_dim);
          s = 0;
          for (int d = 0; d < p.head_dim; d++) s = add(s, static_cast<double>(q[d]) * k[d]);
          s = round(s * static_cast<double>(p.scale));
          if (p.softcap > 0) {
            s = round(std::tanh(s / static_cast<double>(p.softcap)) *
                      static_cast<double>(p.softcap));
          }
          if (p.alibi) {
            s -= static_cast<double>(p.slopes[static_cast<std::size_t>(h)]) *
                 std::abs(i + p.seq_k - p.seq_q - j);
          }
          if (p.bias) {
            s += static_cast<double>(p.bias_cells[static_cast<std::size_t>(p.cell(b, h, i, j))]);
          }
          if (std::isnan(s)) top = s;
          if (!std::isnan(top)) top = std::max(top, s);
        }
        double sum = 0;
        std::vector<double> out(static_cast<std::size_t>(p.value_dim), 0.0);
        const bool empty = top == -std::numeric_limits<double>::infinity();
        for (int j = 0; j < p.seq_k && !empty; j++) {
          const double s = score[static_cast<std::size_t>(j)];
          if (s == -std::numeric_limits<double>::infinity()) continue;
          const double e = std::exp(s - top);
          sum = add(sum, e);
          const float* v = row(p.v, j, p.value_dim);
          for (int d = 0; d < p.value_dim; d++) {
            double& o = out[static_cast<std::size_t>(d)];
            o = add(o, round(e) * static_cast<double>(v[d]));
          }
        }
        for (double& x : out) result.out.push_back(empty ? 0.0 : round(x / sum));
        result.lse.push_back(empty ? top : top + std::log(sum));
      }
    }
  }
  return result;
}

double allowed_error(const Problem& p, const Result& exact) {
  const Result low = attention(p, true);
  double plain = 0, around = 0;
  for (std::size_t n = 0; n < exact.out.size(); n++) {
    if (!std::isfinite(exact.out[n])) continue;
    plain = std::max(plain, std::abs(low.out[n] - exact.out[n]));
    const float shifted = rounded(p.element, static_cast<float>(exact.out[n]) + 0.3f) - 0.3f;
    around =
        std::max(around, std::abs(static_cast<double>(rounded(p.element, shifted)) - exact.out[n]));
  }
  return (p.softcap > 0 ? 3 : 2) * plain + 2 * around + 1e-6;
}

}  // namespace rdna_test
