#include "hipflash/merge.h"

#include <cstring>
#include <string>

#include "api/extents.h"
#include "api/operation_kernels.h"
#include "api/operations.h"
#include "api/recorder.h"
#include "core/fail.h"

namespace hipflash {
namespace {

using api::Access;

RowStrides row_strides(const Strides& s) {
  return {s.batch, s.seq, s.head};
}

// Strides of an LSE for the rows of `rows`.
Strides lse_strides(const LseOutput& lse, const Tensor& rows) {
  Tensor shape = rows;
  shape.stride = lse.stride == Strides{} ? Strides{rows.heads * rows.seq, 1, rows.seq} : lse.stride;
  return api::meaningful_strides(shape);
}

void check_lse(const std::string& name, const LseOutput& lse, const Tensor& rows, Access access) {
  const Strides s = lse_strides(lse, rows);
  api::check_reach(name.c_str(), {{rows.batch, s.batch}, {rows.seq, s.seq}, {rows.heads, s.head}});
  if (access == Access::written) {
    api::check_disjoint(name.c_str(),
                        {{{rows.batch, s.batch}, {rows.seq, s.seq}, {rows.heads, s.head}, {1, 1}}});
  }
}

void check_same(const std::string& name, std::int64_t value, const char* other,
                std::int64_t wanted) {
  if (value != wanted) {
    fail(ErrorCode::InvalidArgument, "{} = {} must equal {} = {}", name, value, other, wanted);
  }
}

void check_part(const std::string& name, const PartialResult& part, const PartialResult& first,
                const Tensor& out) {
  check_tensor((name + ".out").c_str(), part.out, Access::read);
  check_same(name + ".out.batch", part.out.batch, "out.batch", out.batch);
  check_same(name + ".out.seq", part.out.seq, "out.seq", out.seq);
  check_same(name + ".out.heads", part.out.heads, "out.heads", out.heads);
  check_same(name + ".out.dim", part.out.dim, "out.dim", out.dim);
  if (part.out.dtype != first.out.dtype ||
      (part.out.dtype != out.dtype && part.out.dtype != DType::f32)) {
    fail(ErrorCode::InvalidArgument,
         "{}.out.dtype = {} must be f32 or out.dtype = {}, and the same for all parts", name,
         to_string(part.out.dtype), to_string(out.dtype));
  }
  api::check_count((name + ".count").c_str(), part.count, api::kMaxCount);
  api::check_reach((name + ".out_step").c_str(), {{part.count, part.out_step}});
  api::check_reach((name + ".lse_step").c_str(), {{part.count, part.lse_step}});
  if (part.count == 0) return;
  if (!part.lse.data) {
    fail(ErrorCode::InvalidArgument, "{}.lse.data = null must point to the log-sum-exp", name);
  }
  check_lse(name + ".lse", part.lse, part.out, Access::read);
}

plan::MergeProblem merge_problem(const std::vector<PartialResult>& parts, const Tensor& out,
                                 const LseOutput& lse) {
  if (parts.empty() || parts.size() > kMostMergeParts) {
    fail(ErrorCode::InvalidArgument, "parts.size() = {} must be 1 to {}; a part may count many",
         parts.size(), kMostMergeParts);
  }
  check_tensor("out", out, Access::written);
  if (lse.data) check_lse("lse", lse, out, Access::written);
  plan::MergeProblem problem;
  std::memset(static_cast<void*>(&problem), 0, sizeof(problem));  // its bytes are compared
  problem.dtype = out.dtype;
  problem.part_dtype = parts.front().out.dtype;
  bool aligned = api::whole_pieces(out);
  MergeArgs& args = problem.args;
  const auto elements = static_cast<std::int64_t>(16 / size_of(problem.part_dtype));
  for (const PartialResult& part : parts) {
    const std::string name = fmt::format("parts[{}]", &part - parts.data());
    check_part(name, part, parts.front(), out);
    if (lse.data && part.lse.data == lse.data) {
      fail(ErrorCode::InvalidArgument, "lse.data = {} must not be {}.lse.data", fmt::ptr(lse.data),
           name);
    }
    MergePart& to = args.part[args.parts++];
    to.out = part.out.data;
    to.lse = part.lse.data;
    to.out_stride = row_strides(api::meaningful_strides(part.out));
    to.lse_stride = row_strides(lse_strides(part.lse, part.out));
    to.count = part.count;
    to.out_step = part.count > 1 ? part.out_step : 0;
    to.lse_step = part.count > 1 ? part.lse_step : 0;
    aligned = aligned && api::whole_pieces(part.out) && to.out_step % elements == 0;
  }
  problem.aligned = aligned;
  args.out = out.data;
  args.lse = lse.data;
  args.out_stride = row_strides(api::meaningful_strides(out));
  args.lse_stride = lse.data ? row_strides(lse_strides(lse, out)) : RowStrides{};
  args.batch = static_cast<int>(out.batch);
  args.seq = static_cast<int>(out.seq);
  args.heads = static_cast<int>(out.heads);
  args.dim = static_cast<int>(out.dim);
  return problem;
}

}  // namespace

void merge_partials(Context& ctx, const std::vector<PartialResult>& parts, const Tensor& out,
                    const LseOutput& lse, Stream stream) {
  const plan::MergeProblem problem = merge_problem(parts, out, lse);
  if (out.batch == 0 || out.seq == 0 || out.heads == 0) return;
  const auto loaded =
      ctx.impl().operation(api::bytes_of('m', problem), [&](const platform::DeviceFacts& device) {
        api::record({device.arch, device.compute_units, {}, api::kernel_of(problem)});
        return plan::plan_merge(problem, device);
      });
  const MergePart& first = problem.args.part[0];
  const MergePart& last = problem.args.part[problem.args.parts - 1];
  loaded->operation->run(&problem.args,
                         {{"out", out.data},
                          {"lse", lse.data},
                          {"parts[0].out", first.out},
                          {"parts[0].lse", first.lse},
                          {"the last part's out", last.out},
                          {"the last part's lse", last.lse}},
                         stream);
}

Explanation explain_merge_partials(Context& ctx, const std::vector<PartialResult>& parts,
                                   const Tensor& out, const LseOutput& lse) {
  const plan::MergeProblem problem = merge_problem(parts, out, lse);
  return ctx.impl().explain_operation(
      [&](const platform::DeviceFacts& device) { return plan::plan_merge(problem, device); });
}

}  // namespace hipflash
