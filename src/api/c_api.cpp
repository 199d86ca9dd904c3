#include "hipflash/c.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "api/c_support.h"
#include "core/fail.h"
#include "hipflash/attention.h"

using namespace hipflash;
using namespace hipflash::api;

struct hipflash_plan {
  Plan plan;
  std::string explanation;
};

namespace {

thread_local std::string last_error, last_log;

}  // namespace

namespace hipflash::api {

hipflash_status failed(ErrorCode code, const char* message, const std::string& log) noexcept {
  try {
    last_error = message;
    last_log = log;
  } catch (...) {
    last_error.clear();
    last_log.clear();
  }
  return static_cast<hipflash_status>(code);
}

Tensor tensor_of(const hipflash_tensor* given, const char* name) {
  const hipflash_tensor t =
      versioned<hipflash_tensor>(given, name, HIPFLASH_TENSOR_INIT, sizeof(hipflash_tensor));
  return {t.data,
          static_cast<DType>(t.dtype),
          t.batch,
          t.seq,
          t.heads,
          t.dim,
          {t.stride_batch, t.stride_seq, t.stride_head}};
}

}  // namespace hipflash::api

namespace {

AttentionOptions options_of(const hipflash_options* given) {
  AttentionOptions options;
  if (!given) return options;
  const hipflash_options o = versioned<hipflash_options>(given, "options", HIPFLASH_OPTIONS_INIT,
                                                         offsetof(hipflash_options, scale));
  require_unused(o.reserved, "options.reserved");
  require_unused(o.reserved2, "options.reserved2");
  if (o.scale_set) options.scale = o.scale;
  options.causal = o.causal != 0;
  options.alignment = static_cast<MaskAlignment>(o.alignment);
  options.window = {o.window_left, o.window_right};
  options.softcap = o.softcap;
  options.alibi = {o.alibi_slopes, o.alibi_batch_stride, o.alibi_head_stride};
  options.bias = {
      o.bias,
      static_cast<DType>(o.bias_dtype),
      {o.bias_stride_batch, o.bias_stride_head, o.bias_stride_query, o.bias_stride_key}};
  options.mask = {
      o.mask, {o.mask_stride_batch, o.mask_stride_head, o.mask_stride_query, o.mask_stride_key}};
  options.lse = {o.lse, {o.lse_stride_batch, o.lse_stride_query, o.lse_stride_head}};
  options.sinks = o.sinks;
  options.varlen = {o.varlen_batch,           o.cu_seqlens_q, o.cu_seqlens_k,
                    o.offsets_are_64bit != 0, o.max_seq_q,    o.max_seq_k};
  options.cache = {o.kv_lengths, o.kv_batch_index, o.kv_left_padding};
  options.paged = {o.block_table, o.block_table_rows, o.block_table_columns,
                   o.block_table_row_stride};
  options.batch_invariant = o.batch_invariant != 0;
  options.strict_f32 = o.strict_f32 != 0;
  return options;
}

std::vector<std::string> split_list(const char* list) {
  std::vector<std::string> parts;
  for (const char* at = list; at && *at;) {
    const char* const end = std::strchr(at, ':');
    const std::size_t size = end ? static_cast<std::size_t>(end - at) : std::strlen(at);
    if (size > 0) parts.emplace_back(at, size);
    at = end ? end + 1 : nullptr;
  }
  return parts;
}

ContextOptions context_options_of(const hipflash_context_options* given) {
  ContextOptions options;
  if (!given) return options;
  const auto o =
      versioned<hipflash_context_options>(given, "context options", HIPFLASH_CONTEXT_OPTIONS_INIT,
                                          offsetof(hipflash_context_options, cache_dir));
  require_unused(o.reserved, "context options.reserved");
  require_unused(o.reserved2, "context options.reserved2");
  options.use_disk_cache = o.no_disk_cache == 0;
  options.threads = o.threads;
  if (o.cache_dir) options.cache_dir = o.cache_dir;
  if (o.cpu_isa) options.cpu_isa = o.cpu_isa;
  options.prebuilt = split_list(o.prebuilt);
  if (o.pack) options.packs = {{o.pack, static_cast<std::size_t>(o.pack_bytes)}};
  if (o.while_compiling != 0 && o.while_compiling != 1) {
    fail(ErrorCode::InvalidArgument, "options.while_compiling = {} must be 0 or 1",
         o.while_compiling);
  }
  options.while_compiling = static_cast<WhileCompiling>(o.while_compiling);
  return options;
}

}  // namespace

const char* hipflash_version(void) {
  return HIPFLASH_VERSION;
}

const char* hipflash_status_string(hipflash_status status) {
  return status == HIPFLASH_OK ? "OK" : to_string(static_cast<ErrorCode>(status));
}

const char* hipflash_last_error(void) {
  return last_error.c_str();
}
const char* hipflash_last_error_log(void) {
  return last_log.c_str();
}

hipflash_status hipflash_context_create(const char* device, const hipflash_context_options* options,
                                        hipflash_context** context) {
  return guarded([&] {
    if (!context) fail(ErrorCode::InvalidArgument, "context = NULL must point to a result");
    *context = nullptr;
    const DeviceId id = device ? parse_device(device) : default_device();
    *context = new hipflash_context{Context(id, context_options_of(options))};
  });
}

void hipflash_context_destroy(hipflash_context* context) {
  delete context;
}

hipflash_status hipflash_attention_forward(hipflash_context* context, const hipflash_tensor* q,
                                           const hipflash_tensor* k, const hipflash_tensor* v,
                                           const hipflash_tensor* out,
                                           const hipflash_options* options, void* stream) {
  return guarded([&] {
    require(context, "context");
    attention_forward(context->context, tensor_of(q, "q"), tensor_of(k, "k"), tensor_of(v, "v"),
                      tensor_of(out, "out"), options_of(options), Stream{stream});
  });
}

hipflash_status hipflash_plan_create(hipflash_context* context, const hipflash_tensor* q,
                                     const hipflash_tensor* k, const hipflash_tensor* v,
                                     const hipflash_tensor* out, const hipflash_options* options,
                                     hipflash_plan** plan) {
  return guarded([&] {
    require(context, "context");
    if (!plan) fail(ErrorCode::InvalidArgument, "plan = NULL must point to a result");
    *plan = nullptr;
    Plan made =
        context->context.plan(make_problem(tensor_of(q, "q"), tensor_of(k, "k"), tensor_of(v, "v"),
                                           tensor_of(out, "out"), options_of(options)));
    std::string explanation = made.explanation().text();
    *plan = new hipflash_plan{std::move(made), std::move(explanation)};
  });
}

hipflash_status hipflash_plan_run(const hipflash_plan* plan, const hipflash_pointers* pointers,
                                  void* stream) {
  return guarded([&] {
    require(plan, "plan");
    const hipflash_pointers p = versioned<hipflash_pointers>(
        pointers, "pointers", HIPFLASH_POINTERS_INIT, offsetof(hipflash_pointers, lse));
    require_unused(p.reserved, "pointers.reserved");
    TensorPointers tensors;
    tensors.q = p.q;
    tensors.k = p.k;
    tensors.v = p.v;
    tensors.out = p.out;
    tensors.lse = p.lse;
    tensors.bias = p.bias;
    tensors.mask = p.mask;
    tensors.alibi = p.alibi_slopes;
    tensors.sinks = p.sinks;
    tensors.cu_seqlens_q = p.cu_seqlens_q;
    tensors.cu_seqlens_k = p.cu_seqlens_k;
    tensors.kv_lengths = p.kv_lengths;
    tensors.kv_batch_index = p.kv_batch_index;
    tensors.kv_left_padding = p.kv_left_padding;
    tensors.block_table = p.block_table;
    plan->plan.run(tensors, Stream{stream});
  });
}

const char* hipflash_plan_explain(const hipflash_plan* plan) {
  return plan ? plan->explanation.c_str() : "";
}

void hipflash_plan_destroy(hipflash_plan* plan) {
  delete plan;
}

hipflash_status hipflash_context_seal(hipflash_context* context) {
  return guarded([&] {
    require(context, "context");
    context->context.seal();
  });
}
