// The operations beside attention in the C API.
#include <string>
#include <vector>

#include "api/c_support.h"
#include "common/merge_args.h"
#include "hipflash/kv_cache.h"
#include "hipflash/merge.h"

using namespace hipflash;
using namespace hipflash::api;

namespace {

AppendOptions append_options_of(const hipflash_append_options* given) {
  AppendOptions options;
  if (!given) return options;
  const auto o = versioned<hipflash_append_options>(given, "options", HIPFLASH_APPEND_OPTIONS_INIT,
                                                    sizeof(hipflash_append_options));
  options.cu_seqlens = o.cu_seqlens;
  options.offsets_are_64bit = o.offsets_are_64bit != 0;
  options.batch = o.batch;
  options.cache = {o.kv_lengths, o.kv_batch_index, nullptr};
  options.paged = {o.block_table, o.block_table_rows, o.block_table_columns,
                   o.block_table_row_stride};
  options.rotary = {
      o.rotary_cos,       o.rotary_sin,        static_cast<DType>(o.rotary_dtype), o.rotary_dim,
      o.rotary_positions, o.rotary_row_stride, o.rotary_interleaved != 0};
  options.q = tensor_of(&o.q, "options.q");
  options.q_out = tensor_of(&o.q_out, "options.q_out");
  options.new_lengths = o.new_lengths;
  return options;
}

PartialResult partial_of(const hipflash_partial* given, const char* name) {
  const auto p =
      versioned<hipflash_partial>(given, name, HIPFLASH_PARTIAL_INIT, sizeof(hipflash_partial));
  require_unused(p.reserved, "parts.reserved");
  PartialResult part;
  part.out = tensor_of(&p.out, "parts.out");
  part.lse.data = const_cast<float*>(p.lse);
  part.lse.stride = {p.lse_stride_batch, p.lse_stride_query, p.lse_stride_head};
  part.count = p.count;
  part.out_step = p.out_step;
  part.lse_step = p.lse_step;
  return part;
}

}  // namespace

hipflash_status hipflash_append_kv(hipflash_context* context, const hipflash_tensor* k_new,
                                   const hipflash_tensor* v_new, const hipflash_tensor* k_cache,
                                   const hipflash_tensor* v_cache,
                                   const hipflash_append_options* options, void* stream) {
  return guarded([&] {
    require(context, "context");
    append_kv(context->context, tensor_of(k_new, "k_new"), tensor_of(v_new, "v_new"),
              tensor_of(k_cache, "k_cache"), tensor_of(v_cache, "v_cache"),
              append_options_of(options), Stream{stream});
  });
}

hipflash_status hipflash_merge_partials(hipflash_context* context, const hipflash_partial* parts,
                                        size_t count, const hipflash_tensor* out, float* lse,
                                        void* stream) {
  return guarded([&] {
    require(context, "context");
    if (count > kMostMergeParts) {
      fail(ErrorCode::InvalidArgument, "count = {} must be at most {}; a part may count many",
           count, kMostMergeParts);
    }
    if (count > 0) require(parts, "parts");
    std::vector<PartialResult> given;
    for (std::size_t i = 0; i < count; ++i) {
      // The caller's header may know fewer or more members than this one.
      const char* const at = reinterpret_cast<const char*>(parts) + i * parts->struct_size;
      given.push_back(partial_of(reinterpret_cast<const hipflash_partial*>(at), "parts"));
    }
    merge_partials(context->context, given, tensor_of(out, "out"), {lse, {}}, Stream{stream});
  });
}

hipflash_status hipflash_context_take_fault(hipflash_context* context) {
  return guarded([&] {
    require(context, "context");
    const std::string fault = context->context.take_fault();
    if (!fault.empty()) fail(ErrorCode::InvalidArgument, "{}", fault);
  });
}
