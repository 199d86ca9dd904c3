#include "hipflash/attention.h"

#include <cmath>

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
    check_same("batch", other, other.tensor->batch, nq, q.batch);
  }
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
  has.paged_kv = options.paged.block_table != nullptr;
  has.dropout = options.dropout.probability != 0.0f;
  has.user_functions = !options.functions.score.empty() || !options.functions.mask.empty();

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
  return t;
}

void attention_forward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& out, const AttentionOptions& options, Stream stream) {
  ctx.plan(make_problem(q, k, v, out, options)).run(make_pointers(q, k, v, out, options), stream);
}

}  // namespace hipflash
