#include "hipflash/problem.h"

#include <cmath>
#include <initializer_list>

#include "api/problem_hash.h"

namespace hipflash {
namespace {

// Calls f with every field.
template <class F>
void for_each_field(const Problem& p, F&& f) {
  const auto strides = [&](const Strides& s) {
    f(s.batch);
    f(s.seq);
    f(s.head);
  };
  const auto score_strides = [&](const ScoreStrides& s) {
    f(s.batch);
    f(s.head);
    f(s.query);
    f(s.key);
  };
  f(p.dtype);
  for (const auto n :
       {p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_k, p.head_dim, p.value_head_dim}) {
    f(n);
  }
  for (const auto* s : {&p.q, &p.k, &p.v, &p.out, &p.lse}) strides(*s);
  f(p.aligned);
  f(p.scale);
  f(p.causal);
  f(p.alignment);
  f(p.window.left);
  f(p.window.right);
  f(p.softcap);
  const Features& has = p.features;
  for (const bool b : {has.lse, has.alibi, has.bias, has.mask, has.sinks, has.varlen, has.kv_cache,
                       has.paged_kv, has.dropout, has.user_functions}) {
    f(b);
  }
  f(p.alibi_batch_stride);
  f(p.alibi_head_stride);
  f(p.bias_dtype);
  score_strides(p.bias);
  score_strides(p.mask);
  const Ragged& r = p.ragged;
  for (const bool b :
       {r.packed_q, r.packed_k, r.offsets_are_64bit, r.lengths, r.batch_index, r.left_padding}) {
    f(b);
  }
  for (const auto n : {r.total_q, r.total_k, r.kv_slots, r.page_size, r.pages, r.pages_per_sequence,
                       r.block_table_stride}) {
    f(n);
  }
  f(p.batch_invariant);
}

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

}  // namespace

bool operator==(const Problem& a, const Problem& b) noexcept {
  return a.dtype == b.dtype && a.batch == b.batch && a.heads_q == b.heads_q &&
         a.heads_kv == b.heads_kv && a.seq_q == b.seq_q && a.seq_k == b.seq_k &&
         a.head_dim == b.head_dim && a.value_head_dim == b.value_head_dim && a.q == b.q &&
         a.k == b.k && a.v == b.v && a.out == b.out && a.lse == b.lse && a.aligned == b.aligned &&
         a.scale == b.scale && a.causal == b.causal && a.alignment == b.alignment &&
         a.window == b.window && a.softcap == b.softcap && a.features == b.features &&
         a.alibi_batch_stride == b.alibi_batch_stride &&
         a.alibi_head_stride == b.alibi_head_stride && a.bias_dtype == b.bias_dtype &&
         a.bias == b.bias && a.mask == b.mask && a.ragged == b.ragged &&
         a.batch_invariant == b.batch_invariant;
}

std::size_t ProblemHash::operator()(const Problem& problem) const noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  for_each_field(problem, [&](auto field) {
    hash = (hash ^ bits_of(field)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  });
  return static_cast<std::size_t>(hash);
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
