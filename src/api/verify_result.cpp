// HIPFLASH_VERIFY: every result is held against the float64 reference.
#include <cstddef>

#include "api/check.h"
#include "api/context_impl.h"
#include "api/host_copies.h"
#include "core/fail.h"
#include "verify/reference.h"

namespace hipflash::api {
namespace {

// At most this many queries of each sequence and head are looked at.
constexpr std::int64_t kVerifiedQueries = 256;

TensorPointers host_twins(HostCopies& copies, const Problem& p, const TensorPointers& t) {
  const std::size_t element = size_of(p.dtype);
  const Extents queries = query_extents(p), keys = key_extents(p);
  const auto rows = [&](const void* data, const Strides& s, const Extents& size, std::int64_t heads,
                        std::int64_t dim) {
    return copies.copy(data, element,
                       {{size.batch, s.batch}, {size.seq, s.seq}, {heads, s.head}, {dim, 1}});
  };
  const auto cells = [&](const void* data, std::size_t size, const ScoreStrides& s) {
    return copies.copy(
        data, size,
        {{p.batch, s.batch}, {p.heads_q, s.head}, {p.seq_q, s.query}, {p.seq_k, s.key}});
  };
  TensorPointers host;
  host.q = rows(t.q, p.q, queries, p.heads_q, p.head_dim);
  host.k = rows(t.k, p.k, keys, p.heads_kv, p.head_dim);
  host.v = rows(t.v, p.v, keys, p.heads_kv, p.value_head_dim);
  host.out = const_cast<void*>(rows(t.out, p.out, queries, p.heads_q, p.value_head_dim));
  if (p.features.lse) {
    host.lse = static_cast<float*>(const_cast<void*>(copies.copy(
        t.lse, sizeof(float),
        {{queries.batch, p.lse.batch}, {queries.seq, p.lse.seq}, {p.heads_q, p.lse.head}})));
  }
  if (p.features.bias) host.bias = cells(t.bias, size_of(p.bias_dtype), p.bias);
  if (p.features.mask) host.mask = cells(t.mask, 1, p.mask);
  if (p.features.alibi) {
    host.alibi = static_cast<const float*>(
        copies.copy(t.alibi, sizeof(float),
                    {{p.batch, p.alibi_batch_stride}, {p.heads_q, p.alibi_head_stride}}));
  }
  const auto copied = [&]<class T>(const T* data, std::size_t size, std::int64_t count) {
    return static_cast<const T*>(copies.copy(data, size, {{count, 1}}));
  };
  const Ragged& r = p.ragged;
  const std::size_t offset = r.offsets_are_64bit ? 8 : 4;
  if (p.features.sinks) host.sinks = copied(t.sinks, sizeof(float), p.heads_q);
  if (r.packed_q) host.cu_seqlens_q = copied(t.cu_seqlens_q, offset, p.batch + 1);
  if (r.packed_k) host.cu_seqlens_k = copied(t.cu_seqlens_k, offset, p.batch + 1);
  if (r.lengths) host.kv_lengths = copied(t.kv_lengths, 4, p.batch);
  if (r.batch_index) host.kv_batch_index = copied(t.kv_batch_index, 4, p.batch);
  if (r.left_padding) host.kv_left_padding = copied(t.kv_left_padding, 4, p.batch);
  if (p.features.paged_kv) {
    host.block_table = static_cast<const std::int32_t*>(copies.copy(
        t.block_table, 4, {{r.kv_slots, r.block_table_stride}, {r.pages_per_sequence, 1}}));
  }
  return host;
}

verify::Verdict check_on_host(const Problem& problem, const TensorPointers& tensors) {
  verify::ReferenceOptions options;
  options.most_queries = kVerifiedQueries;
  return verify::check(problem, tensors, options);
}

verify::Verdict check(const Plan::Impl& plan, const TensorPointers& tensors) {
  if (plan.device.platform == Platform::cpu) return check_on_host(plan.problem, tensors);
  HostCopies copies(plan.device);
  return check_on_host(plan.problem, host_twins(copies, plan.problem, tensors));
}

}  // namespace

void verify_result(const Plan::Impl& plan, const TensorPointers& tensors, Stream stream) {
  if (!verifiable(plan.device, stream)) return;
  const verify::Verdict verdict = check(plan, tensors);
  if (verdict.ok()) return;
  fail(ErrorCode::Internal, "HIPFLASH_VERIFY: kernel {} ({}; key {}) gave a wrong result: {}",
       plan.explanation.family, plan.explanation.reason, plan.explanation.key, verdict.text());
}

}  // namespace hipflash::api
