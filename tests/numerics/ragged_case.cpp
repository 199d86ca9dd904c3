#include "numerics/ragged_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "numerics/results.h"

namespace hipflash::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kOfNoSequence = 7.0f;  // in output rows that belong to no sequence

std::int64_t largest(const std::vector<std::int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

std::int64_t total(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

// Positions before the first key of a sequence.
std::int64_t padding_of(const RaggedCase& c, std::int64_t sequence) {
  return c.left_padding ? (sequence * 5 + 3) % 11 : 0;
}

std::int64_t positions_of(const RaggedCase& c) {
  std::int64_t most = 0;
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    most = std::max(most, padding_of(c, b) + c.keys[static_cast<std::size_t>(b)]);
  }
  return std::max(most, c.capacity);
}

std::int64_t pages_of(const RaggedCase& c, std::int64_t positions) {
  return (positions + c.page_size - 1) / c.page_size;
}

OwnedTensor query_tensor(const RaggedCase& c, std::int64_t dim) {
  if (c.packed_q) {
    return {c.dtype, 1, total(c.queries) + 2 * c.gap, c.heads_q, dim, c.layout};
  }
  return {c.dtype, c.batch(), largest(c.queries), c.heads_q, dim, c.layout};
}

// A pool has a third more pages than are used.
OwnedTensor key_tensor(const RaggedCase& c, std::int64_t dim) {
  switch (c.form) {
    case KeyForm::dense:
      return {c.dtype, c.batch(), largest(c.keys), c.heads_kv, dim, c.layout};
    case KeyForm::packed:
      return {c.dtype, 1, total(c.keys) + 2 * c.gap, c.heads_kv, dim, c.layout};
    case KeyForm::cache:
      return {c.dtype, c.batch() + c.spare_slots, positions_of(c), c.heads_kv, dim, c.layout};
    case KeyForm::paged:
      break;
  }
  std::int64_t used = 0;
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    used += pages_of(c, padding_of(c, b) + c.keys[static_cast<std::size_t>(b)]);
  }
  return {c.dtype, used + used / 3 + 1, c.page_size, c.heads_kv, dim, Layout::bhsd};
}

const char* name_of(KeyForm form) {
  switch (form) {
    case KeyForm::dense:
      return "dense";
    case KeyForm::packed:
      return "packed";
    case KeyForm::cache:
      return "cache";
    case KeyForm::paged:
      return "paged";
  }
  return "?";
}

std::mt19937_64 random_of(const RaggedCase& c, std::int64_t sequence, std::uint64_t what) {
  return std::mt19937_64((c.seed * 1000003 + static_cast<std::uint64_t>(sequence)) * 16 + what);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const RaggedCase& c) {
  const auto list = [&](const std::vector<std::int64_t>& lengths) {
    for (std::size_t b = 0; b < std::min<std::size_t>(lengths.size(), 8); ++b) {
      out << (b ? "," : "") << lengths[b];
    }
    if (lengths.size() > 8) out << ",... (" << lengths.size() << ")";
  };
  out << to_string(c.dtype) << " H" << c.heads_q << "/" << c.heads_kv << " D" << c.dim << "/"
      << (c.value_dim ? c.value_dim : c.dim) << " queries ";
  list(c.queries);
  out << (c.packed_q ? " packed" : " dense") << " keys ";
  list(c.keys);
  out << " " << name_of(c.form);
  if (c.form == KeyForm::paged) out << c.page_size;
  if (c.capacity) out << " capacity" << c.capacity;
  if (c.layout == Layout::padded_rows) out << " padded rows";
  if (c.batch_index) out << " batch_index";
  if (c.left_padding) out << " left_padding";
  if (c.offsets_are_64bit) out << " int64";
  if (!c.hints) out << " no hints";
  if (c.causal) out << " causal";
  if (c.alignment == MaskAlignment::top_left) out << " top_left";
  if (!(c.window == Window{})) out << " window(" << c.window.left << "," << c.window.right << ")";
  if (c.softcap > 0) out << " softcap" << c.softcap;
  if (c.alibi) out << " alibi";
  if (c.bias) out << " bias";
  if (c.mask) out << " mask";
  if (c.sinks) out << " sinks";
  if (c.batch_invariant) out << " batch_invariant";
  return out << " seed" << c.seed;
}

RaggedData::RaggedData(const RaggedCase& c)
    : q(query_tensor(c, c.dim)),
      k(key_tensor(c, c.dim)),
      v(key_tensor(c, c.value_dim ? c.value_dim : c.dim)),
      out(query_tensor(c, c.value_dim ? c.value_dim : c.dim)),
      case_(c) {
  fill_arrays();
  q.fill(kNan);
  k.fill(c.unused);
  v.fill(c.unused);
  std::normal_distribution<float> normal;
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    std::mt19937_64 random = random_of(c, b, 1);
    for (std::int64_t i = 0; i < c.queries[static_cast<std::size_t>(b)]; ++i) {
      const auto [batch, row] = query_row(b, i);
      for (std::int64_t h = 0; h < c.heads_q; ++h)
        for (std::int64_t d = 0; d < c.dim; ++d) q.set(batch, row, h, d, normal(random));
    }
    random = random_of(c, b, 2);
    for (std::int64_t j = 0; j < c.keys[static_cast<std::size_t>(b)]; ++j) {
      const auto [batch, row] = key_row(b, j);
      for (std::int64_t h = 0; h < c.heads_kv; ++h) {
        for (std::int64_t d = 0; d < c.dim; ++d) k.set(batch, row, h, d, normal(random));
        for (std::int64_t d = 0; d < v.view().dim; ++d) v.set(batch, row, h, d, normal(random));
      }
    }
  }
  fill_cells();
}

void RaggedData::fill_arrays() {
  const RaggedCase& c = case_;
  const auto offsets = [&](const std::vector<std::int64_t>& counts, std::vector<std::int32_t>& cu,
                           std::vector<std::int64_t>& cu_64) -> const void* {
    cu_64.push_back(c.gap);
    for (const std::int64_t count : counts) cu_64.push_back(cu_64.back() + count);
    cu.assign(cu_64.begin(), cu_64.end());
    return c.offsets_are_64bit ? static_cast<const void*>(cu_64.data()) : cu.data();
  };
  options.varlen.offsets_are_64bit = c.offsets_are_64bit;
  if (c.packed_q) {
    options.varlen.batch = c.batch();
    options.varlen.cu_seqlens_q = offsets(c.queries, cu_q, cu_q_64);
    if (c.hints) options.varlen.max_seq_q = std::max<std::int64_t>(largest(c.queries), 1);
  }
  if (c.form == KeyForm::packed) {
    options.varlen.cu_seqlens_k = offsets(c.keys, cu_k, cu_k_64);
    if (c.hints) options.varlen.max_seq_k = std::max<std::int64_t>(largest(c.keys), 1);
  }
  if (c.form != KeyForm::cache && c.form != KeyForm::paged) return;

  const std::int64_t rows = c.batch() + c.spare_slots;
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    padding.push_back(static_cast<std::int32_t>(padding_of(c, b)));
    lengths.push_back(
        static_cast<std::int32_t>(padding_of(c, b) + c.keys[static_cast<std::size_t>(b)]));
    slots.push_back(static_cast<std::int32_t>(c.batch_index ? rows - 1 - b : b));
  }
  options.cache.lengths = lengths.data();
  if (c.batch_index) options.cache.batch_index = slots.data();
  if (c.left_padding) options.cache.left_padding = padding.data();
  if (c.form != KeyForm::paged) return;

  // Pages in random order; entries that no key needs are garbage.
  const std::int64_t columns = std::max<std::int64_t>(pages_of(c, positions_of(c)), 1);
  std::vector<std::int32_t> pages(static_cast<std::size_t>(k.view().batch));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(c.seed));
  const std::int64_t stride = columns + 1;
  table.assign(static_cast<std::size_t>(rows * stride), -1234567);
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    const std::int64_t used = pages_of(c, lengths[static_cast<std::size_t>(b)]);
    for (std::int64_t column = 0; column < used; ++column) {
      table[static_cast<std::size_t>(slots[static_cast<std::size_t>(b)] * stride + column)] =
          pages.back();
      pages.pop_back();
    }
  }
  options.paged = {table.data(), rows, columns, stride};
}

void RaggedData::fill_cells() {
  const RaggedCase& c = case_;
  options.causal = c.causal;
  options.alignment = c.alignment;
  options.window = c.window;
  options.softcap = c.softcap;
  options.batch_invariant = c.batch_invariant;
  std::mt19937_64 random(c.seed * 31 + 5);
  std::normal_distribution<float> normal;
  if (c.lse) {
    lse.resize(static_cast<std::size_t>(q.view().batch * c.heads_q * q.view().seq) + 1);
    options.lse.data = lse.data();
  }
  if (c.alibi) {
    slopes.resize(static_cast<std::size_t>(c.batch() * c.heads_q));
    for (float& slope : slopes) slope = 0.2f * std::abs(normal(random));
    options.alibi = {slopes.data(), c.heads_q, 1};
  }
  if (c.sinks) {
    sinks.resize(static_cast<std::size_t>(c.heads_q));
    for (float& sink : sinks) sink = 2.0f * normal(random);
    options.sinks = sinks.data();
  }
  const std::int64_t rows = std::max<std::int64_t>(largest(c.queries), 1);
  const std::int64_t row = std::max<std::int64_t>(largest(c.keys), 1);
  const auto cells = static_cast<std::size_t>(c.batch() * rows * row);
  if (c.bias) {
    bias.resize(cells);
    for (float& x : bias) {
      x = random() % 16 == 0 ? -std::numeric_limits<float>::infinity() : normal(random);
    }
    options.bias = {bias.data(), DType::f32, {rows * row, 0, row, 1}};
  }
  if (c.mask) {
    mask.resize(cells);
    for (auto& seen : mask) seen = random() % 4 != 0;
    options.mask = {mask.data(), {rows * row, 0, row, 1}};
  }
}

std::pair<std::int64_t, std::int64_t> RaggedData::query_row(std::int64_t sequence,
                                                            std::int64_t i) const {
  if (!case_.packed_q) return {sequence, i};
  return {0, cu_q_64[static_cast<std::size_t>(sequence)] + i};
}

std::pair<std::int64_t, std::int64_t> RaggedData::key_row(std::int64_t sequence,
                                                          std::int64_t j) const {
  const std::int64_t position = padding_of(case_, sequence) + j;
  switch (case_.form) {
    case KeyForm::dense:
      return {sequence, j};
    case KeyForm::packed:
      return {0, cu_k_64[static_cast<std::size_t>(sequence)] + j};
    case KeyForm::cache:
      return {slots[static_cast<std::size_t>(sequence)], position};
    case KeyForm::paged:
      break;
  }
  const std::int64_t entry = slots[static_cast<std::size_t>(sequence)] * options.paged.row_stride +
                             position / case_.page_size;
  return {table[static_cast<std::size_t>(entry)], position % case_.page_size};
}

Problem RaggedData::problem() const {
  return make_problem(q.view(), k.view(), v.view(), out.view(), options);
}

TensorPointers RaggedData::pointers() const {
  return make_pointers(q.view(), k.view(), v.view(), out.view(), options);
}

std::vector<Block> RaggedData::blocks() {
  return {block_of(q.memory()), block_of(k.memory()),
          block_of(v.memory()), block_of(out.memory(), true),
          block_of(lse, true),  block_of(slopes),
          block_of(bias),       block_of(sinks),
          block_of(cu_q),       block_of(cu_k),
          block_of(lengths),    block_of(slots),
          block_of(padding),    block_of(table),
          block_of(cu_q_64),    block_of(cu_k_64),
          block_of(mask)};
}

void RaggedData::poison() {
  out.fill(kOfNoSequence);
  std::fill(lse.begin(), lse.end(), kOfNoSequence);
  for (std::int64_t b = 0; b < case_.batch(); ++b) {
    for (std::int64_t i = 0; i < case_.queries[static_cast<std::size_t>(b)]; ++i) {
      const auto [batch, row] = query_row(b, i);
      for (std::int64_t h = 0; h < case_.heads_q; ++h) {
        for (std::int64_t d = 0; d < out.view().dim; ++d) out.set(batch, row, h, d, kNan);
        if (case_.lse) lse[static_cast<std::size_t>(lse_index(b, i, h))] = kNan;
      }
    }
  }
}

void RaggedData::run(Target& target) {
  poison();
  const Plan plan = target.context().plan(problem());
  SCOPED_TRACE(plan.explanation().text());
  target.run(plan, pointers(), blocks());
}

verify::Verdict RaggedData::verdict(std::int64_t most_queries) const {
  verify::ReferenceOptions reference;
  reference.most_queries = most_queries;
  return verify::check(problem(), pointers(), reference);
}

std::int64_t RaggedData::lse_index(std::int64_t sequence, std::int64_t i, std::int64_t h) const {
  const auto [batch, row] = query_row(sequence, i);
  return (batch * case_.heads_q + h) * q.view().seq + row;
}

std::vector<float> RaggedData::out_of(std::int64_t sequence) const {
  std::vector<float> rows;
  for (std::int64_t i = 0; i < case_.queries[static_cast<std::size_t>(sequence)]; ++i) {
    const auto [batch, row] = query_row(sequence, i);
    for (std::int64_t h = 0; h < case_.heads_q; ++h)
      for (std::int64_t d = 0; d < out.view().dim; ++d) rows.push_back(out.get(batch, row, h, d));
  }
  return rows;
}

std::vector<float> RaggedData::lse_of(std::int64_t sequence) const {
  std::vector<float> rows;
  for (std::int64_t i = 0; i < case_.queries[static_cast<std::size_t>(sequence)]; ++i)
    for (std::int64_t h = 0; h < case_.heads_q; ++h)
      rows.push_back(lse[static_cast<std::size_t>(lse_index(sequence, i, h))]);
  return rows;
}

bool RaggedData::untouched() const {
  bool same = out.untouched_outside() && (lse.empty() || lse.back() == kOfNoSequence);
  if (!case_.packed_q) return same;
  for (std::int64_t row = 0; row < out.view().seq; ++row) {
    if (row >= cu_q_64.front() && row < cu_q_64.back()) continue;
    for (std::int64_t h = 0; h < case_.heads_q; ++h) {
      for (std::int64_t d = 0; d < out.view().dim; ++d) {
        same = same && out.get(0, row, h, d) == kOfNoSequence;
      }
      if (case_.lse) {
        same = same && lse[static_cast<std::size_t>(h * out.view().seq + row)] == kOfNoSequence;
      }
    }
  }
  return same;
}

void expect_right(const RaggedCase& c, const std::string& target_name) {
  SCOPED_TRACE(::testing::Message() << c << " on " << target_name);
  RaggedData data(c);
  Target& here = target(target_name);
  data.run(here);
  const verify::Verdict verdict = data.verdict(largest(c.queries) > 600 ? 200 : 0);
  write_result(here.context().device(), here.context().plan(data.problem()), verdict);
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  EXPECT_TRUE(data.untouched()) << "something that is no sequence's output was written";
}

}  // namespace hipflash::testing
