#include "hipflash/merge.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "api/extents.h"
#include "api/operation_kernels.h"
#include "api/operations.h"
#include "api/overlap.h"
#include "api/verify_operation.h"
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
  api::check_count((name + ".count").c_str(), part.count, api::kMaxCount);
  Tensor rows = part.out;
  if (part.count == 0) rows.batch = 0;  // nothing is read, so it need not be anywhere
  check_tensor((name + ".out").c_str(), rows, Access::read);
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
  api::check_reach((name + ".out_step").c_str(), {{part.count, part.out_step}});
  api::check_reach((name + ".lse_step").c_str(), {{part.count, part.lse_step}});
  if (part.count == 0 || out.batch == 0 || out.seq == 0 || out.heads == 0) return;
  if (!part.lse.data) {
    fail(ErrorCode::InvalidArgument, "{}.lse.data = null must point to the log-sum-exp", name);
  }
  check_lse(name + ".lse", part.lse, part.out, Access::read);
}

// Names of the parts in errors.
struct PartNames {
  std::string out, lse;
};
const std::array<PartNames, kMostMergeParts>& part_names() {
  static const auto* const names = [] {
    auto* const made = new std::array<PartNames, kMostMergeParts>;
    for (std::size_t i = 0; i < made->size(); ++i) {
      (*made)[i] = {fmt::format("parts[{}].out", i), fmt::format("parts[{}].lse", i)};
    }
    return made;
  }();
  return *names;
}

std::size_t lse_footprint(const LseOutput& lse, const Tensor& rows) {
  const Strides s = lse_strides(lse, rows);
  return api::footprint(sizeof(float),
                        {{{rows.batch, s.batch}, {rows.seq, s.seq}, {rows.heads, s.head}, {1, 1}}});
}

// Of `count` results of `one` byte each, as far as they lie one behind another.
std::size_t all_of(std::size_t one, std::int64_t count, std::int64_t step_bytes) {
  const bool dense = step_bytes == static_cast<std::int64_t>(one);
  return count == 0 ? 0 : dense ? one * static_cast<std::size_t>(count) : one;
}

// Whether the result takes the place of one of the part's: each row is read before it is written,
// unless results of the part share rows.
bool replaces(const Tensor& out, const PartialResult& part, std::int64_t step_bytes) {
  const auto distance = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out.data) -
                                                  reinterpret_cast<std::uintptr_t>(part.out.data));
  return out.dtype == part.out.dtype &&
         api::meaningful_strides(out) == api::meaningful_strides(part.out) &&
         (step_bytes == 0
              ? distance == 0
              : distance % step_bytes == 0 &&
                    static_cast<std::size_t>(std::abs(step_bytes)) >= api::footprint(out));
}

void check_apart(const std::vector<PartialResult>& parts, const Tensor& out, const LseOutput& lse) {
  const api::Footprint result{"out", out.data, api::footprint(out)};
  const api::Footprint norms{"lse", lse.data, lse.data ? lse_footprint(lse, out) : 0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PartialResult& part = parts[i];
    const std::int64_t step =
        part.count > 1 ? part.out_step * static_cast<std::int64_t>(size_of(part.out.dtype)) : 0;
    const std::array<api::Footprint, 2> read = {
        {{part_names()[i].lse.c_str(), part.lse.data,
          all_of(lse_footprint(part.lse, part.out), part.count, 4 * part.lse_step)},
         {part_names()[i].out.c_str(), part.out.data,
          all_of(api::footprint(part.out), part.count, step)}}};
    api::check_apart(result, std::span(read).first(replaces(out, part, step) ? 1 : 2));
    api::check_apart(norms, read);
  }
  api::check_apart(norms, {&result, 1});
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
  check_apart(parts, out, lse);
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

// For as long as the problem lives.
auto planner_of(const plan::MergeProblem& problem) {
  return [&problem](const platform::DeviceFacts& device) -> Context::Impl::PlannedOperation {
    return {plan::plan_merge(problem, device), api::kernel_of(problem)};
  };
}

// What the call reads and writes; null: nothing.
std::array<platform::NamedPointer, 2 + 2 * kMostMergeParts> pointers_of(const MergeArgs& args) {
  std::array<platform::NamedPointer, 2 + 2 * kMostMergeParts> pointers = {};
  pointers[0] = {"out", args.out};
  pointers[1] = {"lse", args.lse};
  for (std::size_t i = 0; i < static_cast<std::size_t>(args.parts); ++i) {
    const MergePart& part = args.part[i];
    if (part.count == 0) continue;
    pointers[2 + 2 * i] = {part_names()[i].out.c_str(), part.out};
    pointers[3 + 2 * i] = {part_names()[i].lse.c_str(), part.lse};
  }
  return pointers;
}

}  // namespace

void merge_partials(Context& ctx, const std::vector<PartialResult>& parts, const Tensor& out,
                    const LseOutput& lse, Stream stream) {
  const plan::MergeProblem problem = merge_problem(parts, out, lse);
  if (out.batch == 0 || out.seq == 0 || out.heads == 0) return;
  const auto loaded =
      ctx.impl().operation(api::bytes_of('m', problem), planner_of(problem), stream);
  std::optional<api::MergeCheck> check;
  if (ctx.impl().verifies(stream)) check.emplace(ctx.impl().id(), problem);
  loaded->operation->run(&problem.args, pointers_of(problem.args), stream);
  if (check) check->expect_right(*loaded);
}

Explanation explain_merge_partials(Context& ctx, const std::vector<PartialResult>& parts,
                                   const Tensor& out, const LseOutput& lse) {
  const plan::MergeProblem problem = merge_problem(parts, out, lse);
  return ctx.impl().explain_operation(planner_of(problem));
}

}  // namespace hipflash
