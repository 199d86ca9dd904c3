// The one list of a Problem's fields: equality, hashing and the JSON form all walk over it.
#pragma once

#include "hipflash/problem.h"

namespace hipflash {

// Calls f(name, field of each problem...) for every field, so that one walk may look at one
// problem, compare two, or fill one in.
template <class F, class... P>
void for_each_field(F&& f, P&... p) {
  f("dtype", p.dtype...);
  f("batch", p.batch...);
  f("heads_q", p.heads_q...);
  f("heads_kv", p.heads_kv...);
  f("seq_q", p.seq_q...);
  f("seq_k", p.seq_k...);
  f("head_dim", p.head_dim...);
  f("value_head_dim", p.value_head_dim...);
  f("q", p.q...);
  f("k", p.k...);
  f("v", p.v...);
  f("out", p.out...);
  f("lse_strides", p.lse...);
  f("aligned", p.aligned...);
  f("scale", p.scale...);
  f("causal", p.causal...);
  f("alignment", p.alignment...);
  f("window", p.window...);
  f("softcap", p.softcap...);
  f("lse", p.features.lse...);
  f("alibi", p.features.alibi...);
  f("bias", p.features.bias...);
  f("mask", p.features.mask...);
  f("sinks", p.features.sinks...);
  f("varlen", p.features.varlen...);
  f("kv_cache", p.features.kv_cache...);
  f("paged_kv", p.features.paged_kv...);
  f("dropout", p.features.dropout...);
  f("user_functions", p.features.user_functions...);
  f("alibi_batch_stride", p.alibi_batch_stride...);
  f("alibi_head_stride", p.alibi_head_stride...);
  f("bias_dtype", p.bias_dtype...);
  f("bias_strides", p.bias...);
  f("mask_strides", p.mask...);
  f("packed_q", p.ragged.packed_q...);
  f("packed_k", p.ragged.packed_k...);
  f("offsets_are_64bit", p.ragged.offsets_are_64bit...);
  f("lengths", p.ragged.lengths...);
  f("batch_index", p.ragged.batch_index...);
  f("left_padding", p.ragged.left_padding...);
  f("total_q", p.ragged.total_q...);
  f("total_k", p.ragged.total_k...);
  f("kv_slots", p.ragged.kv_slots...);
  f("page_size", p.ragged.page_size...);
  f("pages", p.ragged.pages...);
  f("pages_per_sequence", p.ragged.pages_per_sequence...);
  f("block_table_stride", p.ragged.block_table_stride...);
  f("batch_invariant", p.batch_invariant...);
  f("strict_f32", p.strict_f32...);
}

}  // namespace hipflash
