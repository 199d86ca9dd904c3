#include "autotune/sequences.h"

#include <algorithm>
#include <random>

namespace hipflash::autotune {
namespace {

// Elements of K in all pages; what a cache of that size cannot hold is not in it either.
constexpr std::int64_t kMostPoolElements = std::int64_t{1} << 28;

template <class T>
std::vector<T> even_offsets(std::int64_t batch, std::int64_t rows) {
  std::vector<T> offsets;
  for (std::int64_t b = 0; b <= batch; ++b) offsets.push_back(static_cast<T>(b * rows));
  return offsets;
}

}  // namespace

void lay_out_sequences(Problem& p) {
  Ragged& r = p.ragged;
  if (p.features.paged_kv) {
    r.page_size = std::max<std::int64_t>(r.page_size, 1);
    r.pages_per_sequence = (p.seq_k + r.page_size - 1) / r.page_size;
    p.seq_k = r.pages_per_sequence * r.page_size;
  }
  const bool aligned = p.aligned;
  p.set_dense_bshd();
  p.aligned = p.aligned && aligned;
  if (r.packed_q) {
    r.total_q = p.batch * p.seq_q;
    p.lse = {0, 1, r.total_q};
  }
  if (!p.features.lse) p.lse = {};
  r.kv_slots = p.batch;
  if (r.packed_k) {
    r.total_k = p.batch * p.seq_k;
    r.kv_slots = 0;
  }
  if (!p.features.paged_kv) return;
  const std::int64_t page = r.page_size * p.heads_kv;  // rows
  const std::int64_t most = std::max<std::int64_t>(kMostPoolElements / (page * p.head_dim), 1);
  r.pages = std::min(p.batch * r.pages_per_sequence, most);
  r.block_table_stride = r.pages_per_sequence;
  p.k.batch = page * p.head_dim;
  p.v.batch = page * p.value_head_dim;
}

SequenceTables::SequenceTables(const Problem& p) {
  const Ragged& r = p.ragged;
  if (r.packed_q) offsets_q = even_offsets<std::int32_t>(p.batch, p.seq_q);
  if (r.packed_k) offsets_k = even_offsets<std::int32_t>(p.batch, p.seq_k);
  if (r.offsets_are_64bit) {
    long_offsets_q.assign(offsets_q.begin(), offsets_q.end());
    long_offsets_k.assign(offsets_k.begin(), offsets_k.end());
  }
  for (std::int64_t b = 0; b < p.batch; ++b) {
    // Tails of all kinds, the first sequence whole.
    if (r.lengths) lengths.push_back(static_cast<std::int32_t>(p.seq_k - b * 7 % p.seq_k % 64));
    if (r.left_padding) padding.push_back(static_cast<std::int32_t>(b % 2));
    if (r.batch_index) slots.push_back(static_cast<std::int32_t>(p.batch - 1 - b));
  }
  if (!p.features.paged_kv) return;
  for (std::int64_t i = 0; i < p.batch * r.pages_per_sequence; ++i) {
    pages.push_back(static_cast<std::int32_t>(i % r.pages));
  }
  std::shuffle(pages.begin(), pages.end(), std::mt19937(1));
}

}  // namespace hipflash::autotune
