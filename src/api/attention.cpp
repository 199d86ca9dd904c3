#include "hipflash/attention.h"

#include <cmath>

#include "api/extents.h"
#include "core/fail.h"

namespace hipflash {
namespace {

struct Named {
  const char* name;
  const Tensor* tensor;
};

void check_same(const char* what, const Named& a, std::int64_t x, const Named& b, std::int64_t y) {
  if (x != y) {
    fail(ErrorCode::InvalidArgument, "{}.{} = {} must equal {}.{} = {}", a.name, what, x, b.name,
         what, y);
  }
}

// A dimension of one element is never stepped over, so its stride says nothing; dropping it makes
// equal problems equal.
Strides meaningful(const Tensor& t) {
  return {t.batch > 1 ? t.stride.batch : 0, t.seq > 1 ? t.stride.seq : 0,
          t.heads > 1 ? t.stride.head : 0};
}

bool rows_aligned(const Tensor& t) {
  const auto elements = static_cast<std::int64_t>(16 / size_of(t.dtype));
  const Strides s = meaningful(t);
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && s.batch % elements == 0 &&
         s.seq % elements == 0 && s.head % elements == 0;
}

// The number of sequences, and how long they may be.
void fill_ragged(Problem& p, const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const Varlen& varlen = options.varlen;
  const KvCache& cache = options.cache;
  const PagedKv& paged = options.paged;
  Ragged& r = p.ragged;
  r.packed_q = varlen.cu_seqlens_q != nullptr;
  r.packed_k = varlen.cu_seqlens_k != nullptr;
  r.offsets_are_64bit = p.features.varlen && varlen.offsets_are_64bit;
  r.lengths = cache.lengths != nullptr;
  r.batch_index = cache.batch_index != nullptr;
  r.left_padding = cache.left_padding != nullptr;
  const auto packed_batch = [](const char* name, const Tensor& t) {
    if (t.batch != 1) {
      fail(ErrorCode::InvalidArgument, "{}.batch = {} must be 1: its sequences are packed", name,
           t.batch);
    }
  };
  const auto most = [](const char* name, std::int64_t hint, std::int64_t limit) {
    if (hint < 0) fail(ErrorCode::InvalidArgument, "{} = {} must not be negative", name, hint);
    return hint == 0 ? limit : hint < limit ? hint : limit;
  };
  if (r.packed_q) {
    packed_batch("q", q);
    p.batch = varlen.batch;
    r.total_q = q.seq;
    p.seq_q = most("varlen.max_seq_q", varlen.max_seq_q, q.seq);
  }
  if (p.features.paged_kv) {
    r.page_size = k.seq;
    r.pages = k.batch;
    r.pages_per_sequence = paged.columns;
    r.block_table_stride = paged.row_stride != 0 ? paged.row_stride : paged.columns;
    r.kv_slots = paged.rows != 0 ? paged.rows : p.batch;
    std::int64_t positions = 0;
    if (__builtin_mul_overflow(paged.columns, k.seq, &positions)) positions = INT64_MAX;
    p.seq_k = positions;
  } else if (r.packed_k) {
    packed_batch("k", k);
    r.total_k = k.seq;
    p.seq_k = most("varlen.max_seq_k", varlen.max_seq_k, k.seq);
  } else {
    r.kv_slots = k.batch;
    if (!r.batch_index && k.batch != p.batch) {
      fail(ErrorCode::InvalidArgument,
           "k.batch = {} must equal the number of sequences, {}, without cache.batch_index",
           k.batch, p.batch);
    }
  }
}

// Numbers of a feature whose pointer is null are a mistake: the call would be another one.
void check_absent(const Tensor& q, const AttentionOptions& options) {
  const Varlen& varlen = options.varlen;
  if (!options.paged.block_table) api::check_no_table("paged", options.paged);
  if (!varlen.cu_seqlens_q && varlen.batch != 0 && varlen.batch != q.batch) {
    fail(ErrorCode::InvalidArgument,
         "varlen.batch = {} must be 0 or q.batch = {} where varlen.cu_seqlens_q is null",
         varlen.batch, q.batch);
  }
}

Strides lse_strides(const LseOutput& lse, const Tensor& q) {
  const bool dense = lse.stride == Strides{};
  // Unsigned: sizes are checked later, and an overflow here must be harmless.
  const auto heads_by_seq = static_cast<std::int64_t>(static_cast<std::uint64_t>(q.heads) *
                                                      static_cast<std::uint64_t>(q.seq));
  const Strides given = dense ? Strides{heads_by_seq, 1, q.seq} : lse.stride;
  return {q.batch > 1 ? given.batch : 0, q.seq > 1 ? given.seq : 0, q.heads > 1 ? given.head : 0};
}

}  // namespace

Problem make_problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                     const AttentionOptions& options) {
  const Named nq{"q", &q}, nk{"k", &k}, nv{"v", &v}, no{"out", &out};
  for (const Named& other : {nk, nv, no}) {
    if (other.tensor->dtype != q.dtype) {
      fail(ErrorCode::InvalidArgument, "{}.dtype = {} must equal q.dtype = {}", other.name,
           to_string(other.tensor->dtype), to_string(q.dtype));
    }
  }
  const bool ragged = options.varlen.cu_seqlens_q || options.varlen.cu_seqlens_k ||
                      options.cache.lengths || options.cache.batch_index ||
                      options.cache.left_padding || options.paged.block_table;
  check_same("batch", no, out.batch, nq, q.batch);
  check_same("batch", nv, v.batch, nk, k.batch);
  if (!ragged) check_same("batch", nk, k.batch, nq, q.batch);
  check_same("seq", nv, v.seq, nk, k.seq);
  check_same("seq", no, out.seq, nq, q.seq);
  check_same("heads", nv, v.heads, nk, k.heads);
  check_same("heads", no, out.heads, nq, q.heads);
  check_same("dim", nk, k.dim, nq, q.dim);
  check_same("dim", no, out.dim, nv, v.dim);

  Problem p;
  p.dtype = q.dtype;
  p.batch = q.batch;
  p.heads_q = q.heads;
  p.heads_kv = k.heads;
  p.seq_q = q.seq;
  p.seq_k = k.seq;
  p.head_dim = q.dim;
  p.value_head_dim = v.dim;
  p.q = meaningful(q);
  p.k = meaningful(k);
  p.v = meaningful(v);
  p.out = meaningful(out);
  p.aligned = rows_aligned(q) && rows_aligned(k) && rows_aligned(v) && rows_aligned(out);
  p.scale = options.scale ? *options.scale
            : q.dim > 0   ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.dim)))
                          : 1.0f;
  p.causal = options.causal;
  p.alignment = options.alignment;
  p.window = options.window;
  p.softcap = options.softcap;

  Features& has = p.features;
  has.lse = options.lse.data != nullptr;
  has.alibi = options.alibi.slopes != nullptr;
  has.bias = options.bias.data != nullptr;
  has.mask = options.mask.data != nullptr;
  has.sinks = options.sinks != nullptr;
  has.varlen = options.varlen.cu_seqlens_q || options.varlen.cu_seqlens_k;
  has.kv_cache = options.cache.lengths || options.cache.batch_index || options.cache.left_padding;
  has.paged_kv = options.paged.block_table != nullptr;
  has.dropout = options.dropout.probability != 0.0f;
  has.user_functions = !options.functions.score.empty() || !options.functions.mask.empty();

  p.batch_invariant = options.batch_invariant;
  p.strict_f32 = options.strict_f32 && p.dtype == DType::f32;
  check_absent(q, options);
  if (ragged) fill_ragged(p, q, k, options);
  if (has.lse) p.lse = lse_strides(options.lse, q);
  if (has.alibi) {
    p.alibi_batch_stride = options.alibi.batch_stride;
    p.alibi_head_stride = options.alibi.head_stride;
  }
  if (has.bias) {
    p.bias_dtype = options.bias.dtype;
    p.bias = options.bias.stride;
  }
  if (has.mask) p.mask = options.mask.stride;
  return p;
}

TensorPointers make_pointers(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                             const AttentionOptions& options) noexcept {
  TensorPointers t;
  t.q = q.data;
  t.k = k.data;
  t.v = v.data;
  t.out = out.data;
  t.lse = options.lse.data;
  t.bias = options.bias.data;
  t.mask = options.mask.data;
  t.alibi = options.alibi.slopes;
  t.sinks = options.sinks;
  t.cu_seqlens_q = options.varlen.cu_seqlens_q;
  t.cu_seqlens_k = options.varlen.cu_seqlens_k;
  t.kv_lengths = options.cache.lengths;
  t.kv_batch_index = options.cache.batch_index;
  t.kv_left_padding = options.cache.left_padding;
  t.block_table = options.paged.block_table;
  return t;
}

void attention_forward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& out, const AttentionOptions& options, Stream stream) {
  ctx.plan(make_problem(q, k, v, out, options), stream)
      .run(make_pointers(q, k, v, out, options), stream);
}

}  // namespace hipflash
