#include "verify/sequences.h"

#include <cstring>

namespace hipflash::verify {
namespace {

struct Range {
  std::int64_t first = 0, count = 0;
};

const void* advance(const void* data, std::int64_t elements, std::size_t size) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size);
}

// Rows of sequence b in a packed tensor of `total` rows; sets `fault` where there can be no such.
Range packed_rows(const Problem& problem, const void* offsets, std::int64_t b, std::int64_t total,
                  bool& fault) {
  const auto at = [&](std::int64_t i) -> std::int64_t {
    return problem.ragged.offsets_are_64bit ? static_cast<const std::int64_t*>(offsets)[i]
                                            : static_cast<const std::int32_t*>(offsets)[i];
  };
  const std::int64_t first = at(b), end = at(b + 1);
  if (first < 0 || end < first || end > total) {
    fault = true;
    return {};
  }
  return {first, end - first};
}

// Where the keys of a sequence are: positions of its slot, or rows of packed tensors.
struct KeyPlace {
  Range positions;
  std::int64_t slot = 0;
};

KeyPlace key_place(const Problem& problem, const TensorPointers& tensors, std::int64_t b,
                   bool& fault) {
  const Ragged& r = problem.ragged;
  KeyPlace place{{0, problem.seq_k}, b};
  if (r.packed_k) {
    place = {packed_rows(problem, tensors.cu_seqlens_k, b, r.total_k, fault), 0};
  }
  Range& positions = place.positions;
  if (r.lengths) {
    const std::int64_t length = tensors.kv_lengths[b];
    if (length < 0 || length > positions.count) {
      fault = true;
    } else {
      positions.count = length;
    }
  }
  if (r.batch_index && !r.packed_k) {
    place.slot = tensors.kv_batch_index[b];
    if (place.slot < 0 || place.slot >= r.kv_slots) fault = true;
  }
  if (r.left_padding) {
    const std::int64_t padding = tensors.kv_left_padding[b];
    if (padding < 0 || padding > positions.count) {
      fault = true;
    } else {
      positions.first += padding;
      positions.count -= padding;
    }
  }
  if (fault) place = {};
  return place;
}

// Rows of all heads of a sequence, from its pages into dense (position, head, dim) memory.
std::vector<std::byte> gather_pages(const Problem& problem, const void* pool, const Strides& stride,
                                    std::int64_t dim, const std::int32_t* pages,
                                    const Range& positions) {
  const std::size_t element = size_of(problem.dtype);
  const std::size_t row = static_cast<std::size_t>(dim) * element;
  std::vector<std::byte> dense(static_cast<std::size_t>(positions.count * problem.heads_kv) * row);
  std::byte* to = dense.data();
  for (std::int64_t p = positions.first; p < positions.first + positions.count; ++p) {
    const std::int64_t page = pages[p / problem.ragged.page_size];
    for (std::int64_t h = 0; h < problem.heads_kv; ++h, to += row) {
      std::memcpy(
          to,
          advance(pool,
                  page * stride.batch + p % problem.ragged.page_size * stride.seq + h * stride.head,
                  element),
          row);
    }
  }
  return dense;
}

void take_paged_keys(const Problem& whole, const TensorPointers& tensors, const KeyPlace& place,
                     DenseCall& call) {
  const Ragged& r = whole.ragged;
  const std::int32_t* pages = tensors.block_table + place.slot * r.block_table_stride;
  const Range& positions = place.positions;
  for (std::int64_t p = positions.first; p < positions.first + positions.count; ++p) {
    const std::int64_t page = pages[p / r.page_size];
    if (page < 0 || page >= r.pages) {
      call.fault = true;
      call.problem.seq_k = 0;
      return;
    }
  }
  const auto dense = [&](std::int64_t dim) { return Strides{0, whole.heads_kv * dim, dim}; };
  call.k = gather_pages(whole, tensors.k, whole.k, whole.head_dim, pages, positions);
  call.v = gather_pages(whole, tensors.v, whole.v, whole.value_head_dim, pages, positions);
  call.tensors.k = call.k.data();
  call.tensors.v = call.v.data();
  call.problem.k = dense(whole.head_dim);
  call.problem.v = dense(whole.value_head_dim);
  call.problem.aligned = false;
}

}  // namespace

std::int64_t dense_calls(const Problem& problem) noexcept {
  return problem.features.ragged() ? problem.batch : 1;
}

DenseCall dense_call(const Problem& whole, const TensorPointers& tensors, std::int64_t b) {
  DenseCall call;
  call.problem = whole;
  call.tensors = tensors;
  if (!whole.features.ragged()) return call;
  call.sequence = b;
  const Ragged& r = whole.ragged;
  Problem& p = call.problem;
  TensorPointers& t = call.tensors;
  p.batch = 1;
  p.ragged = {};
  p.features.varlen = p.features.kv_cache = p.features.paged_kv = false;

  const std::size_t element = size_of(whole.dtype);
  const auto shift_queries = [&](std::int64_t batch, std::int64_t row) {
    const auto offset = [&](const Strides& s) { return batch * s.batch + row * s.seq; };
    t.q = advance(tensors.q, offset(whole.q), element);
    t.out = const_cast<void*>(advance(tensors.out, offset(whole.out), element));
    if (tensors.lse) t.lse = tensors.lse + offset(whole.lse);
  };
  if (r.packed_q) {
    const Range rows = packed_rows(whole, tensors.cu_seqlens_q, b, r.total_q, call.fault);
    p.seq_q = rows.count;
    shift_queries(0, rows.first);
  } else {
    shift_queries(b, 0);
  }
  if (tensors.bias) t.bias = advance(tensors.bias, b * whole.bias.batch, size_of(p.bias_dtype));
  if (tensors.mask) t.mask = advance(tensors.mask, b * whole.mask.batch, 1);
  if (tensors.alibi) t.alibi = tensors.alibi + b * whole.alibi_batch_stride;

  const KeyPlace place = key_place(whole, tensors, b, call.fault);
  p.seq_k = place.positions.count;
  if (whole.features.paged_kv) {
    take_paged_keys(whole, tensors, place, call);
  } else {
    const std::int64_t first = place.positions.first;
    t.k = advance(tensors.k, place.slot * whole.k.batch + first * whole.k.seq, element);
    t.v = advance(tensors.v, place.slot * whole.v.batch + first * whole.v.seq, element);
  }
  return call;
}

}  // namespace hipflash::verify
