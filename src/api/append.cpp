#include <array>
#include <cstring>
#include <optional>

#include "api/check_append.h"
#include "api/extents.h"
#include "api/operation_kernels.h"
#include "api/operations.h"
#include "api/overlap.h"
#include "api/verify_operation.h"
#include "core/fail.h"
#include "hipflash/kv_cache.h"
#include "plan/mask_bounds.h"

namespace hipflash {
namespace {

using api::Access;

RowStrides row_strides(const Tensor& t) {
  const Strides s = api::meaningful_strides(t);
  return {s.batch, s.seq, s.head};
}

struct Named {
  const char* name;
  const Tensor& tensor;
};

void check_same(const Named& a, const char* field, std::int64_t x, const Named& b, std::int64_t y) {
  if (x != y) {
    fail(ErrorCode::InvalidArgument, "{}.{} = {} must equal {}.{} = {}", a.name, field, x, b.name,
         field, y);
  }
}
void check_rows(const Named& a, const Named& b) {
  check_same(a, "batch", a.tensor.batch, b, b.tensor.batch);
  check_same(a, "seq", a.tensor.seq, b, b.tensor.seq);
}
void check_heads(const Named& a, const Named& b) {
  check_same(a, "heads", a.tensor.heads, b, b.tensor.heads);
}
void check_dims(const Named& a, const Named& b) {
  check_same(a, "dim", a.tensor.dim, b, b.tensor.dim);
}

void check_tensors(const Tensor& k_new, const Tensor& v_new, const Tensor& k_cache,
                   const Tensor& v_cache, const AppendOptions& options) {
  const Named k{"k_new", k_new}, v{"v_new", v_new}, kc{"k_cache", k_cache}, vc{"v_cache", v_cache},
      q{"options.q", options.q}, q_out{"options.q_out", options.q_out};
  const auto check = [&](const Named& one, Access access) {
    check_tensor(one.name, one.tensor, access);
    if (one.tensor.dtype != k_new.dtype) {
      fail(ErrorCode::InvalidArgument, "{}.dtype = {} must equal k_new.dtype = {}", one.name,
           to_string(one.tensor.dtype), to_string(k_new.dtype));
    }
  };
  check(k, Access::read);
  check(v, Access::read);
  check(kc, Access::written);
  check(vc, Access::written);
  check_rows(v, k);
  check_heads(v, k);
  check_rows(vc, kc);
  check_heads(kc, k);
  check_heads(vc, k);
  check_dims(kc, k);
  check_dims(vc, v);
  if (!options.q.data && !options.q_out.data) return;
  if (!options.rotary.cos) {
    fail(ErrorCode::InvalidArgument,
         "options.q is given, but options.rotary.cos = null: queries "
         "have nothing to be rotated by");
  }
  check(q, Access::read);
  check(q_out, Access::written);
  check_rows(q, k);
  check_rows(q_out, k);
  check_dims(q, k);
  check_dims(q_out, k);
  check_heads(q_out, q);
}

void fill_rotary(plan::AppendProblem& problem, const Rotary& rotary) {
  if (!rotary.cos && !rotary.sin) return;
  AppendArgs& args = problem.args;
  if (!rotary.cos || !rotary.sin) {
    fail(ErrorCode::InvalidArgument,
         "options.rotary.cos and .sin must both be given, but one is null");
  }
  api::check_dtype("options.rotary.dtype", rotary.dtype);
  if (rotary.dtype != DType::f32 && rotary.dtype != problem.dtype) {
    fail(ErrorCode::InvalidArgument,
         "options.rotary.dtype = {} must be f32 or that of the keys, {}", to_string(rotary.dtype),
         to_string(problem.dtype));
  }
  const std::int64_t dim = rotary.dim != 0 ? rotary.dim : args.head_dim;
  if (dim < 2 || dim > args.head_dim || dim % 2 != 0) {
    fail(ErrorCode::InvalidArgument,
         "options.rotary.dim = {} must be even and 2 to the head dimension, {}", dim,
         args.head_dim);
  }
  api::check_count("options.rotary.positions", rotary.positions, plan::kMaxSequence);
  const std::int64_t stride = rotary.row_stride != 0 ? rotary.row_stride : dim / 2;
  api::check_reach("options.rotary.row_stride", {{rotary.positions, stride}});
  args.cosine = rotary.cos;
  args.sine = rotary.sin;
  args.table_type = static_cast<ElementType>(rotary.dtype);
  args.table_stride = stride;
  args.positions = static_cast<int>(rotary.positions);
  args.rotary_dim = static_cast<int>(dim);
  args.rotary_interleaved = rotary.interleaved ? 1 : 0;
  const int piece = 16 / static_cast<int>(size_of(problem.dtype));
  if ((rotary.interleaved ? dim : dim / 2) % piece != 0) problem.aligned = 0;
}

void fill_cache(AppendArgs& args, const Tensor& k_cache, const Tensor& v_cache,
                const AppendOptions& options) {
  const PagedKv& paged = options.paged;
  args.k_stride = row_strides(k_cache);
  args.v_stride = row_strides(v_cache);
  args.lengths = options.cache.lengths;
  args.batch_index = options.cache.batch_index;
  if (!paged.block_table) {
    api::check_no_table("options.paged", paged);
    args.slots = static_cast<int>(k_cache.batch);
    args.capacity = static_cast<int>(k_cache.seq);
    if (!args.batch_index && args.slots < args.batch) {
      fail(ErrorCode::InvalidArgument,
           "k_cache.batch = {} must be at least the number of sequences, {}", args.slots,
           args.batch);
    }
    return;
  }
  if (k_cache.seq < 1) api::invalid("k_cache.seq", k_cache.seq, "must be 1 or more: a page's size");
  const std::int64_t rows = paged.rows != 0 ? paged.rows : args.batch;
  api::check_count("options.paged.rows", rows, api::kMaxCount);
  api::check_count("options.paged.columns", paged.columns, plan::kMaxSequence);
  const std::int64_t stride = paged.row_stride != 0 ? paged.row_stride : paged.columns;
  api::check_reach("options.paged.row_stride", {{rows, stride}, {paged.columns, 1}});
  if (!args.batch_index && rows < args.batch) {
    fail(ErrorCode::InvalidArgument,
         "options.paged.rows = {} must be at least the number of sequences, {}", rows, args.batch);
  }
  std::int64_t capacity = 0;
  if (__builtin_mul_overflow(paged.columns, k_cache.seq, &capacity) ||
      capacity > plan::kMaxSequence) {
    capacity = plan::kMaxSequence;
  }
  args.block_table = paged.block_table;
  args.block_table_stride = stride;
  args.slots = static_cast<int>(rows);
  args.capacity = static_cast<int>(capacity);
  args.pages = static_cast<int>(k_cache.batch);
  args.page_size = static_cast<int>(k_cache.seq);
  args.pages_per_sequence = static_cast<int>(paged.columns);
}

// The new rows may lie in the caches, at positions that are not written to, and the caches may
// share memory.
void check_apart(const AppendArgs& args, const Tensor& k_new, const Tensor& v_new,
                 const Tensor& k_cache, const Tensor& v_cache, const AppendOptions& options) {
  const std::size_t sequences = static_cast<std::size_t>(args.batch) * sizeof(std::int32_t);
  const std::size_t pages =
      api::footprint(4, {{{args.pages_per_sequence, 1}, {args.slots, args.block_table_stride}}});
  const auto array = [](const void* data, std::size_t bytes) { return data ? bytes : 0; };
  const Tensor &q = options.q, &q_out = options.q_out;
  const bool in_place =
      q.data == q_out.data && api::meaningful_strides(q) == api::meaningful_strides(q_out);
  const std::size_t table =
      api::footprint(size_of(options.rotary.dtype),
                     {{{args.rotary_dim / 2, 1}, {args.positions, args.table_stride}}});
  const api::Footprint lengths{"options.new_lengths", args.new_lengths,
                               array(args.new_lengths, sequences)};
  const std::size_t offsets =
      (static_cast<std::size_t>(args.batch) + 1) *
      (args.offsets_are_64bit ? sizeof(std::int64_t) : sizeof(std::int32_t));
  const api::Footprint queries{"options.q", args.q, args.q ? api::footprint(q) : 0};
  const api::Footprint rotated{"options.q_out", args.q_out, args.q ? api::footprint(q_out) : 0};
  const std::array<api::Footprint, 10> others = {
      {{"options.cache.lengths", args.lengths, array(args.lengths, sequences)},
       {"options.cache.batch_index", args.batch_index, array(args.batch_index, sequences)},
       {"options.paged.block_table", args.block_table, array(args.block_table, pages)},
       {"options.cu_seqlens", args.cu_seqlens, array(args.cu_seqlens, offsets)},
       {"options.rotary.cos", args.cosine, array(args.cosine, table)},
       {"options.rotary.sin", args.sine, array(args.sine, table)},
       {"k_cache", args.k, api::footprint(k_cache)},
       {"v_cache", args.v, api::footprint(v_cache)},
       {"k_new", args.k_new, api::footprint(k_new)},
       {"v_new", args.v_new, api::footprint(v_new)}}};
  constexpr std::size_t kTables = 6;
  for (const api::Footprint& cache : {others[kTables], others[kTables + 1]}) {
    api::check_apart(cache, std::span(others).first<kTables>());
    api::check_apart(cache, {&queries, 1});
  }
  api::check_apart(rotated, others);
  if (!in_place) api::check_apart(rotated, {&queries, 1});
  api::check_apart(lengths, others);
  api::check_apart(lengths, std::array{queries, rotated});
}

plan::AppendProblem append_problem(const Tensor& k_new, const Tensor& v_new, const Tensor& k_cache,
                                   const Tensor& v_cache, const AppendOptions& options) {
  check_tensors(k_new, v_new, k_cache, v_cache, options);
  plan::AppendProblem problem;
  std::memset(static_cast<void*>(&problem), 0, sizeof(problem));  // its bytes are compared
  problem.dtype = k_new.dtype;
  problem.aligned = 1;
  for (const Tensor* t : {&k_new, &v_new, &k_cache, &v_cache}) {
    if (!api::whole_pieces(*t)) problem.aligned = 0;
  }
  AppendArgs& args = problem.args;
  args.k_new = k_new.data;
  args.v_new = v_new.data;
  args.k = k_cache.data;
  args.v = v_cache.data;
  args.k_new_stride = row_strides(k_new);
  args.v_new_stride = row_strides(v_new);
  args.heads_kv = static_cast<int>(k_new.heads);
  args.head_dim = static_cast<int>(k_new.dim);
  args.value_head_dim = static_cast<int>(v_new.dim);
  args.rows = static_cast<int>(k_new.seq);
  args.batch = static_cast<int>(k_new.batch);
  if (options.cu_seqlens) {
    if (k_new.batch != 1) {
      api::invalid("k_new.batch", k_new.batch, "must be 1: its sequences are packed");
    }
    api::check_count("options.batch", options.batch, api::kMaxCount);
    args.batch = static_cast<int>(options.batch);
    args.cu_seqlens = options.cu_seqlens;
    args.offsets_are_64bit = options.offsets_are_64bit ? 1 : 0;
  } else if (options.batch != 0 && options.batch != k_new.batch) {
    fail(ErrorCode::InvalidArgument, "options.batch = {} must be 0 or k_new.batch = {}",
         options.batch, k_new.batch);
  }
  if (options.q.data) {
    if (!api::whole_pieces(options.q) || !api::whole_pieces(options.q_out)) problem.aligned = 0;
    args.q = options.q.data;
    args.q_out = options.q_out.data;
    args.q_stride = row_strides(options.q);
    args.q_out_stride = row_strides(options.q_out);
    args.heads_q = static_cast<int>(options.q.heads);
  }
  fill_rotary(problem, options.rotary);
  fill_cache(args, k_cache, v_cache, options);
  args.new_lengths = options.new_lengths;
  check_apart(args, k_new, v_new, k_cache, v_cache, options);
  return problem;
}

// For as long as the problem lives.
auto planner_of(const plan::AppendProblem& problem) {
  return [&problem](const platform::DeviceFacts& device) -> Context::Impl::PlannedOperation {
    return {plan::plan_append(problem, device), api::kernel_of(problem)};
  };
}

bool is_empty(const AppendArgs& args) {
  return args.batch == 0 || (!args.new_lengths && (args.rows == 0 || args.heads_kv == 0));
}

}  // namespace

void append_kv(Context& ctx, const Tensor& k_new, const Tensor& v_new, const Tensor& k_cache,
               const Tensor& v_cache, const AppendOptions& options, Stream stream) {
  plan::AppendProblem problem = append_problem(k_new, v_new, k_cache, v_cache, options);
  AppendArgs& args = problem.args;
  if (is_empty(args)) return;
  Context::Impl& impl = ctx.impl();
  if (impl.id().platform == Platform::cpu) api::check_append(args);
  const auto loaded = impl.operation(api::bytes_of('a', problem), planner_of(problem), stream);
  args.fault = impl.device().fault_word();
  const platform::NamedPointer pointers[] = {{"k_new", args.k_new},
                                             {"v_new", args.v_new},
                                             {"k_cache", args.k},
                                             {"v_cache", args.v},
                                             {"options.q", args.q},
                                             {"options.q_out", args.q_out},
                                             {"options.rotary.cos", args.cosine},
                                             {"options.rotary.sin", args.sine},
                                             {"options.cu_seqlens", args.cu_seqlens},
                                             {"options.cache.lengths", args.lengths},
                                             {"options.cache.batch_index", args.batch_index},
                                             {"options.paged.block_table", args.block_table},
                                             {"options.new_lengths", args.new_lengths}};
  std::optional<api::AppendCheck> check;
  if (impl.verifies(stream)) check.emplace(impl.id(), problem);
  loaded->operation->run(&args, pointers, stream);
  if (check) check->expect_right(*loaded);
}

Explanation explain_append_kv(Context& ctx, const Tensor& k_new, const Tensor& v_new,
                              const Tensor& k_cache, const Tensor& v_cache,
                              const AppendOptions& options) {
  const plan::AppendProblem problem = append_problem(k_new, v_new, k_cache, v_cache, options);
  return ctx.impl().explain_operation(planner_of(problem));
}

}  // namespace hipflash
