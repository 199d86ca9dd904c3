#include "api/overlap.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "api/check.h"
#include "api/extents.h"
#include "core/fail.h"

namespace hipflash::api {
namespace {

// The distance from a to b is below a's bytes, or that from b to a below b's.
bool meet(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(a), other = reinterpret_cast<std::uintptr_t>(b);
  return b_bytes != 0 && (other - at < a_bytes || at - other < b_bytes);
}

[[noreturn]] void refuse(const Footprint& written, std::span<const Footprint> others) {
  const auto with = std::find_if(others.begin(), others.end(), [&](const Footprint& one) {
    return meet(written.data, written.bytes, one.data, one.bytes);
  });
  fail(ErrorCode::InvalidArgument,
       "{} = {} ({} bytes) overlaps {} = {} ({} bytes), which the call still reads or writes",
       written.name, fmt::ptr(written.data), written.bytes, with->name, fmt::ptr(with->data),
       with->bytes);
}

}  // namespace

std::size_t footprint(std::size_t element, std::array<Extent, 4> extents) noexcept {
  std::int64_t elements = 1;
  for (std::size_t pass = 0; pass < extents.size(); ++pass) {
    bool dense = true;
    for (auto& [size, stride] : extents) {
      if (size == 0) return 0;
      if (size == 1 || stride == 0) continue;  // repeated: the same elements again
      if (stride == elements) {
        elements *= size;
        size = 1;
      } else {
        dense = false;  // unless what lies between comes later in the list
      }
    }
    if (dense) return static_cast<std::size_t>(elements) * element;
  }
  return element;
}

std::size_t footprint(const Tensor& t) noexcept {
  return footprint(
      size_of(t.dtype),
      {{{t.dim, 1}, {t.heads, t.stride.head}, {t.seq, t.stride.seq}, {t.batch, t.stride.batch}}});
}

void check_apart(const Footprint& written, std::span<const Footprint> others) {
  bool found = false;
  for (const Footprint& one : others) {
    found |= meet(written.data, written.bytes, one.data, one.bytes);
  }
  if (found && written.bytes != 0) refuse(written, others);
}

Footprints footprints_of(const Problem& p) noexcept {
  if (is_empty(p)) return {};
  const std::size_t element = size_of(p.dtype);
  const Extents queries = query_extents(p), keys = key_extents(p);
  const auto rows = [&](std::size_t size, const Strides& s, const Extents& extents,
                        std::int64_t heads, std::int64_t dim) {
    return footprint(size,
                     {{{extents.batch, s.batch}, {extents.seq, s.seq}, {heads, s.head}, {dim, 1}}});
  };
  const auto cells = [&](std::size_t size, const ScoreStrides& s) {
    return footprint(
        size, {{{p.batch, s.batch}, {p.heads_q, s.head}, {p.seq_q, s.query}, {p.seq_k, s.key}}});
  };
  Footprints bytes;
  bytes.q = rows(element, p.q, queries, p.heads_q, p.head_dim);
  bytes.k = rows(element, p.k, keys, p.heads_kv, p.head_dim);
  bytes.v = rows(element, p.v, keys, p.heads_kv, p.value_head_dim);
  bytes.out = rows(element, p.out, queries, p.heads_q, p.value_head_dim);
  if (p.seq_k == 0) bytes.k = bytes.v = 0;
  if (p.features.lse) bytes.lse = rows(sizeof(float), p.lse, queries, p.heads_q, 1);
  if (p.features.bias) bytes.bias = cells(size_of(p.bias_dtype), p.bias);
  if (p.features.mask) bytes.mask = cells(1, p.mask);
  return bytes;
}

void check_overlap(const Footprints& bytes, const TensorPointers& t) {
  const std::array<Footprint, 6> all = {{{"q", t.q, bytes.q},
                                         {"k", t.k, bytes.k},
                                         {"v", t.v, bytes.v},
                                         {"bias", t.bias, bytes.bias},
                                         {"mask", t.mask, bytes.mask},
                                         {"out", t.out, bytes.out}}};
  check_apart(all.back(), std::span(all).first<5>());
  if (bytes.lse != 0) check_apart({"lse", t.lse, bytes.lse}, all);
}

}  // namespace hipflash::api
