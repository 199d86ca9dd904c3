#include "api/check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "api/extents.h"
#include "core/fail.h"
#include "plan/mask_bounds.h"

namespace hipflash::api {

Extents query_extents(const Problem& p) noexcept {
  return p.ragged.packed_q ? Extents{1, p.ragged.total_q} : Extents{p.batch, p.seq_q};
}

Extents key_extents(const Problem& p) noexcept {
  const Ragged& r = p.ragged;
  if (p.features.paged_kv) return {r.pages, r.page_size};
  if (r.packed_k) return {1, r.total_k};
  return {p.features.ragged() ? r.kv_slots : p.batch, p.seq_k};
}

namespace {

// What Problem::aligned promises of the strides; the pointers are looked at when a plan runs.
void check_aligned(const Problem& p) {
  const auto elements = static_cast<std::int64_t>(16 / size_of(p.dtype));
  const std::pair<const char*, const Strides*> tensors[] = {
      {"q", &p.q}, {"k", &p.k}, {"v", &p.v}, {"out", &p.out}};
  for (const auto& [name, s] : tensors) {
    for (const std::int64_t stride : {s->batch, s->seq, s->head}) {
      if (stride % elements != 0) {
        fail(ErrorCode::InvalidArgument,
             "{} stride {} is not a multiple of {} elements (16 bytes), but aligned = true", name,
             stride, elements);
      }
    }
  }
}

void check_supported(const Features& features) {
  const std::pair<bool, const char*> unbuilt[] = {
      {features.dropout, "dropout"},
      {features.user_functions, "user_functions"},
  };
  for (const auto& [asked, name] : unbuilt) {
    if (asked) fail(ErrorCode::NotSupported, "{}: this feature is not built yet", name);
  }
}

}  // namespace

bool is_empty(const Problem& p) noexcept {
  return p.batch == 0 || p.heads_q == 0 || p.seq_q == 0;
}

namespace {

// Lengths, slots and offsets that are in memory are the kernel's to check.
void check_ragged(const Problem& p) {
  const Ragged& r = p.ragged;
  check_count("total_q", r.total_q, plan::kMaxSequence);
  check_count("total_k", r.total_k, plan::kMaxSequence);
  check_count("kv_slots", r.kv_slots, kMaxCount);
  if (r.packed_k && r.batch_index) {
    fail(ErrorCode::InvalidArgument,
         "cache.batch_index must be null with varlen.cu_seqlens_k: packed keys have no slots");
  }
  if (!p.features.paged_kv) return;
  if (r.packed_k) {
    fail(ErrorCode::InvalidArgument,
         "varlen.cu_seqlens_k must be null with paged.block_table: pages are not packed");
  }
  if (r.page_size < 1) invalid("page size (k.seq)", r.page_size, "must be at least 1");
  if (r.pages < 1) invalid("pages (k.batch)", r.pages, "must be at least 1");
  check_count("pages (k.batch)", r.pages, INT32_MAX);
  check_count("paged.columns", r.pages_per_sequence, plan::kMaxSequence);
  if (r.pages_per_sequence < 1) {
    invalid("paged.columns", r.pages_per_sequence, "must be at least 1");
  }
  if (r.kv_slots < p.batch && !r.batch_index) {
    fail(ErrorCode::InvalidArgument,
         "paged.rows = {} must be at least the number of sequences, {}, without cache.batch_index",
         r.kv_slots, p.batch);
  }
  check_reach("paged.block_table", {{r.kv_slots, r.block_table_stride}, {r.pages_per_sequence, 1}});
}

}  // namespace

void check_problem(const Problem& p) {
  check_dtype("dtype", p.dtype);
  check_count("batch", p.batch, kMaxCount);
  check_count("heads_q", p.heads_q, kMaxCount);
  check_count("heads_kv", p.heads_kv, kMaxCount);
  check_count("seq_q", p.seq_q, plan::kMaxSequence);
  check_count("seq_k", p.seq_k, plan::kMaxSequence);
  const std::pair<const char*, std::int64_t> dims[] = {{"head_dim", p.head_dim},
                                                       {"value_head_dim", p.value_head_dim}};
  for (const auto& [name, dim] : dims) {
    if (dim < 1 || dim > kMaxHeadDim) {
      fail(ErrorCode::InvalidArgument, "{} = {} must be from 1 to {}", name, dim, kMaxHeadDim);
    }
  }
  if (p.heads_kv == 0 ? p.heads_q != 0 : p.heads_q % p.heads_kv != 0) {
    fail(ErrorCode::InvalidArgument,
         "heads_q = {} must be a multiple of heads_kv = {} (query heads share key/value heads)",
         p.heads_q, p.heads_kv);
  }
  if (!std::isfinite(p.scale)) {
    fail(ErrorCode::InvalidArgument, "scale = {} must be finite", p.scale);
  }
  if (!std::isfinite(p.softcap) || p.softcap < 0.0f) {
    fail(ErrorCode::InvalidArgument, "softcap = {} must be 0 (none) or positive and finite",
         p.softcap);
  }
  if (p.alignment != MaskAlignment::bottom_right && p.alignment != MaskAlignment::top_left) {
    invalid("alignment", static_cast<std::int64_t>(p.alignment),
            "is not a mask alignment (bottom_right 0, top_left 1)");
  }
  if (p.window.left < -1) invalid("window.left", p.window.left, "must be -1 (unbounded) or more");
  if (p.window.right < -1)
    invalid("window.right", p.window.right, "must be -1 (unbounded) or more");
  check_supported(p.features);
  if (p.features.bias) {
    check_dtype("bias.dtype", p.bias_dtype);
    if (p.bias_dtype != DType::f32 && p.bias_dtype != p.dtype) {
      fail(ErrorCode::InvalidArgument, "bias.dtype = {} must be f32 or the dtype of q, {}",
           to_string(p.bias_dtype), to_string(p.dtype));
    }
  }
  if (p.features.ragged()) check_ragged(p);
  if (is_empty(p)) return;

  const Extents q = query_extents(p), k = key_extents(p);
  const auto rows = [&](const char* name, const Strides& s, const Extents& size,
                        std::int64_t heads) {
    check_reach(name, {{size.batch, s.batch}, {size.seq, s.seq}, {heads, s.head}});
  };
  rows("q", p.q, q, p.heads_q);
  rows("k", p.k, k, p.heads_kv);
  rows("v", p.v, k, p.heads_kv);
  rows("out", p.out, q, p.heads_q);
  if (p.aligned) check_aligned(p);
  check_disjoint("out", {{{q.batch, p.out.batch},
                          {q.seq, p.out.seq},
                          {p.heads_q, p.out.head},
                          {p.value_head_dim, 1}}});
  if (p.features.lse) {
    rows("lse", p.lse, q, p.heads_q);
    check_disjoint("lse",
                   {{{q.batch, p.lse.batch}, {q.seq, p.lse.seq}, {p.heads_q, p.lse.head}, {1, 0}}});
  }
  const auto cells = [&](const char* name, const ScoreStrides& s) {
    check_reach(name,
                {{p.batch, s.batch}, {p.heads_q, s.head}, {p.seq_q, s.query}, {p.seq_k, s.key}});
  };
  if (p.features.bias) cells("bias", p.bias);
  if (p.features.mask) cells("mask", p.mask);
  if (p.features.alibi) {
    check_reach("alibi", {{p.batch, p.alibi_batch_stride}, {p.heads_q, p.alibi_head_stride}});
  }
}

void check_pointers(const Problem& p, const TensorPointers& t) {
  const auto check = [](const char* name, const void* pointer, std::size_t alignment) {
    if (!pointer)
      fail(ErrorCode::InvalidArgument, "{} = null must point to the tensor's data", name);
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
      fail(ErrorCode::InvalidArgument, "{} = {} must be a multiple of {} bytes", name,
           fmt::ptr(pointer), alignment);
    }
  };
  const std::size_t element = p.aligned ? 16 : size_of(p.dtype);
  check("q", t.q, element);
  check("out", t.out, element);
  if (p.seq_k > 0) {
    check("k", t.k, element);
    check("v", t.v, element);
    if (p.features.bias) check("bias", t.bias, size_of(p.bias_dtype));
    if (p.features.mask) check("mask", t.mask, 1);
  }
  if (p.features.lse) check("lse", t.lse, alignof(float));
  if (p.features.alibi) check("alibi.slopes", t.alibi, alignof(float));
  if (p.features.sinks) check("sinks", t.sinks, alignof(float));
  const Ragged& r = p.ragged;
  const std::size_t offset = r.offsets_are_64bit ? 8 : 4;
  if (r.packed_q) check("varlen.cu_seqlens_q", t.cu_seqlens_q, offset);
  if (r.packed_k) check("varlen.cu_seqlens_k", t.cu_seqlens_k, offset);
  if (r.lengths) check("cache.lengths", t.kv_lengths, 4);
  if (r.batch_index) check("cache.batch_index", t.kv_batch_index, 4);
  if (r.left_padding) check("cache.left_padding", t.kv_left_padding, 4);
  if (p.features.paged_kv) check("paged.block_table", t.block_table, 4);
}

}  // namespace hipflash::api
