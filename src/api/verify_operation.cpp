#include "api/verify_operation.h"

#include <string>

#include "core/fail.h"
#include "verify/operations.h"

namespace hipflash::api {
namespace {

void refuse(const LoadedOperation& loaded, const std::string& wrong) {
  if (wrong.empty()) return;
  const Explanation& why = loaded.explanation;
  fail(ErrorCode::Internal, "HIPFLASH_VERIFY: kernel {} ({}; key {}) gave a wrong result: {}",
       why.family, why.reason, why.key, wrong);
}

}  // namespace

AppendCheck::AppendCheck(const DeviceId& device, const plan::AppendProblem& problem)
    : device_(device), problem_(problem), before_(problem.args), copies_(device) {
  AppendArgs& a = before_;
  const std::size_t element = size_of(problem_.dtype);
  const std::int64_t batch = a.cu_seqlens ? 1 : a.batch;
  const auto rows = [&](const void*& data, const RowStrides& s, int heads, int dim) {
    copies_.replace(data, element, {{batch, s.batch}, {a.rows, s.seq}, {heads, s.head}, {dim, 1}});
  };
  rows(a.k_new, a.k_new_stride, a.heads_kv, a.head_dim);
  rows(a.v_new, a.v_new_stride, a.heads_kv, a.value_head_dim);
  rows(a.q, a.q_stride, a.heads_q, a.head_dim);
  const std::size_t table = size_of(static_cast<DType>(a.table_type));
  for (const void** data : {&a.cosine, &a.sine}) {
    copies_.replace(*data, table, {{a.positions, a.table_stride}, {a.rotary_dim / 2, 1}});
  }
  copies_.replace(a.cu_seqlens, a.offsets_are_64bit ? 8 : 4, {{a.batch + 1, 1}});
  copies_.replace(a.lengths, sizeof(int), {{a.batch, 1}});
  copies_.replace(a.batch_index, sizeof(int), {{a.batch, 1}});
  copies_.replace(a.block_table, sizeof(int),
                  {{a.slots, a.block_table_stride}, {a.pages_per_sequence, 1}});
}

void AppendCheck::expect_right(const LoadedOperation& loaded) const {
  AppendArgs after = problem_.args;
  const AppendArgs& a = problem_.args;
  HostCopies copies(device_);
  const std::size_t element = size_of(problem_.dtype);
  const std::int64_t slots = a.block_table ? a.pages : a.slots;
  const std::int64_t positions = a.block_table ? a.page_size : a.capacity;
  copies.replace(after.k, element,
                 {{slots, a.k_stride.batch},
                  {positions, a.k_stride.seq},
                  {a.heads_kv, a.k_stride.head},
                  {a.head_dim, 1}});
  copies.replace(after.v, element,
                 {{slots, a.v_stride.batch},
                  {positions, a.v_stride.seq},
                  {a.heads_kv, a.v_stride.head},
                  {a.value_head_dim, 1}});
  copies.replace(after.q_out, element,
                 {{a.cu_seqlens ? 1 : a.batch, a.q_out_stride.batch},
                  {a.rows, a.q_out_stride.seq},
                  {a.heads_q, a.q_out_stride.head},
                  {a.head_dim, 1}});
  copies.replace(after.new_lengths, sizeof(int), {{a.batch, 1}});
  refuse(loaded, verify::wrong_append(before_, after, problem_.dtype));
}

MergeCheck::MergeCheck(const DeviceId& device, const plan::MergeProblem& problem)
    : device_(device), problem_(problem), before_(problem.args), copies_(device) {
  MergeArgs& a = before_;
  for (int i = 0; i < a.parts; ++i) {
    MergePart& part = a.part[i];
    const RowStrides &o = part.out_stride, &l = part.lse_stride;
    copies_.replace(part.out, size_of(problem_.part_dtype),
                    {{part.count, part.out_step},
                     {a.batch, o.batch},
                     {a.seq, o.seq},
                     {a.heads, o.head},
                     {a.dim, 1}});
    copies_.replace(
        part.lse, sizeof(float),
        {{part.count, part.lse_step}, {a.batch, l.batch}, {a.seq, l.seq}, {a.heads, l.head}});
  }
}

void MergeCheck::expect_right(const LoadedOperation& loaded) const {
  MergeArgs after = problem_.args;
  HostCopies copies(device_);
  const RowStrides &o = after.out_stride, &l = after.lse_stride;
  copies.replace(
      after.out, size_of(problem_.dtype),
      {{after.batch, o.batch}, {after.seq, o.seq}, {after.heads, o.head}, {after.dim, 1}});
  copies.replace(after.lse, sizeof(float),
                 {{after.batch, l.batch}, {after.seq, l.seq}, {after.heads, l.head}});
  refuse(loaded, verify::wrong_merge(before_, after, problem_.dtype, problem_.part_dtype));
}

}  // namespace hipflash::api
