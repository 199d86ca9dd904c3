#include "hipflash/problem.h"

#include <cmath>

#include "api/problem_fields.h"
#include "api/problem_hash.h"

namespace hipflash {
namespace {

std::uint64_t bits_of(std::int64_t x) {
  return static_cast<std::uint64_t>(x);
}
std::uint64_t bits_of(bool x) {
  return x ? 1 : 0;
}
std::uint64_t bits_of(DType x) {
  return static_cast<std::uint64_t>(x);
}
std::uint64_t bits_of(MaskAlignment x) {
  return static_cast<std::uint64_t>(x);
}
std::uint64_t bits_of(float x) {
  if (x == 0.0f) return 0;  // both zeros are equal, so they hash alike
  std::uint32_t bits = 0;
  static_assert(sizeof bits == sizeof x);
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Folds numbers into a hash.
class Mix {
 public:
  std::uint64_t value() const { return hash_; }

  template <class T>
  void add(const T& x) {
    hash_ = (hash_ ^ bits_of(x)) * 0xff51afd7ed558ccdu;
    hash_ ^= hash_ >> 32;
  }
  void add(const Strides& s) { add_all(s.batch, s.seq, s.head); }
  void add(const ScoreStrides& s) { add_all(s.batch, s.head, s.query, s.key); }
  void add(const Window& w) { add_all(w.left, w.right); }

 private:
  template <class... T>
  void add_all(const T&... x) {
    (add(x), ...);
  }
  std::uint64_t hash_ = 0x9e3779b97f4a7c15u;
};

}  // namespace

bool operator==(const Problem& a, const Problem& b) noexcept {
  bool equal = true;
  for_each_field([&](const char*, const auto& x, const auto& y) { equal = equal && x == y; }, a, b);
  return equal;
}

std::size_t ProblemHash::operator()(const Problem& problem) const noexcept {
  Mix mix;
  for_each_field([&](const char*, const auto& field) { mix.add(field); }, problem);
  return static_cast<std::size_t>(mix.value());
}

void Problem::set_dense_bshd() noexcept {
  const auto dense = [](std::int64_t seq, std::int64_t heads, std::int64_t dim) {
    return Strides{seq * heads * dim, heads * dim, dim};
  };
  q = dense(seq_q, heads_q, head_dim);
  k = dense(seq_k, heads_kv, head_dim);
  v = dense(seq_k, heads_kv, value_head_dim);
  out = dense(seq_q, heads_q, value_head_dim);
  lse = {heads_q * seq_q, 1, seq_q};
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  aligned = head_dim * element % 16 == 0 && value_head_dim * element % 16 == 0;
  if (scale == 0.0f && head_dim > 0) {
    scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  }
}

}  // namespace hipflash
