#include "gpu_compile/default_specs.h"

#include <algorithm>
#include <utility>

#include "api/operation_kernels.h"
#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"

namespace hipflash::testing {
namespace {

struct Variant {
  const char* name;
  void (*change)(Problem&);
};

void put_in_pages(Problem& p) {
  p.features.kv_cache = p.features.paged_kv = true;
  p.ragged.lengths = true;
  p.ragged.page_size = 16;
  p.ragged.pages = 100000;
  p.ragged.pages_per_sequence = p.ragged.block_table_stride = p.seq_k / 16;
  p.ragged.kv_slots = p.batch;
}

void one_query_of(Problem& p, std::int64_t sequences) {
  p.batch = sequences;
  p.seq_q = 1;
}

constexpr Variant kVariants[] = {
    {"full", [](Problem&) {}},
    {"causal", [](Problem& p) { p.causal = true; }},
    {"everything",
     [](Problem& p) {
       p.window = {300, 7};
       p.softcap = 30.0f;
       p.features.alibi = p.features.bias = p.features.mask = true;
     }},
    {"512 keys, causal",
     [](Problem& p) {
       p.seq_q = p.seq_k = 512;
       p.causal = true;
     }},
    {"unaligned causal",
     [](Problem& p) {
       p.causal = true;
       p.aligned = false;
     }},
    {"one query",
     [](Problem& p) {
       p.seq_q = 1;
       p.heads_kv = 2;
     }},
    {"one query, long keys",
     [](Problem& p) {
       p.seq_q = 1;
       p.seq_k = 65536;
       p.heads_kv = 2;
     }},
    {"one query, a head for each unit",
     [](Problem& p) {
       p.batch = 47;
       p.seq_q = 1;
       p.heads_kv = 2;
     }},
    {"paged one query",
     [](Problem& p) {
       p.batch = 2;
       p.seq_q = 1;
       p.heads_kv = 2;
       p.causal = true;
       put_in_pages(p);
     }},
    {"paged causal sinks",
     [](Problem& p) {
       p.causal = p.features.sinks = true;
       put_in_pages(p);
     }},
    {"packed sequences",
     [](Problem& p) {
       p.features.varlen = p.ragged.packed_q = p.ragged.packed_k = true;
       p.ragged.total_q = p.ragged.total_k = 20000;
       p.causal = true;
     }},
    {"board", [](Problem& p) { p.seq_q = p.seq_k = 64; }},
    {"two keys",
     [](Problem& p) {
       p.seq_q = 1;
       p.seq_k = 2;
     }},
    {"eight keys, everything",
     [](Problem& p) {
       p.seq_q = 2;
       p.seq_k = 8;
       p.causal = true;
       p.softcap = 30.0f;
       p.features.alibi = p.features.bias = p.features.mask = true;
     }},
    {"left window",
     [](Problem& p) {
       p.window = {300, -1};
     }},
    {"window",
     [](Problem& p) {
       p.window = {300, 7};
     }},
    {"split keys",
     [](Problem& p) {
       p.seq_q = 300;
       p.causal = true;
       p.batch = 1;
       p.heads_q = p.heads_kv = 1;
       p.seq_k = 100000;
     }},
    {"softcap ALiBi",
     [](Problem& p) {
       p.causal = true;
       p.softcap = 30.0f;
       p.features.alibi = true;
     }},
    {"bias", [](Problem& p) { p.features.bias = true; }},
    {"mask", [](Problem& p) { p.features.mask = true; }},
    {"200 keys", [](Problem& p) { p.seq_q = p.seq_k = 200; }},
    {"1024 keys causal",
     [](Problem& p) {
       p.seq_q = p.seq_k = 1024;
       p.causal = true;
     }},
    {"512 keys, window, softcap",
     [](Problem& p) {
       p.seq_q = p.seq_k = 512;
       p.window = {300, 7};
       p.softcap = 30.0f;
     }},
    {"cache prompt",
     [](Problem& p) {
       p.causal = true;
       p.features.kv_cache = p.ragged.lengths = true;
     }},
    {"one query, five heads for each unit", [](Problem& p) { one_query_of(p, 31); }},
    {"one query, eight heads for each unit", [](Problem& p) { one_query_of(p, 50); }},
    {"one query, many heads for each unit", [](Problem& p) { one_query_of(p, 200); }},
};
constexpr std::size_t kRepresentativeVariants = 15;

Problem plain_problem(DType dtype, int head_dim, int value_head_dim) {
  Problem p = plan::dense_problem({dtype, 8, 16, 16, 4096, 4096, head_dim, false});
  p.value_head_dim = value_head_dim;
  p.features.lse = true;
  p.set_dense_bshd();
  return p;
}

// Kernels beside attention, at one head dimension.
std::vector<DefaultSpec> operation_specs(const std::string& arch, DType dtype, int dim,
                                         Extent extent) {
  std::vector<DefaultSpec> specs;
  const auto add = [&](const char* features, const OperationKernel& kernel) {
    specs.push_back({to_string(dtype), features, dim, dim, api::operation_spec(kernel, arch)});
  };
  OperationKernel append;
  append.name = "append_kv";
  append.dtype = dtype;
  append.other_dtype = DType::f32;
  append.head_dim = append.value_head_dim = dim;
  append.rotary_dim = dim / 2 * 2;  // pairs
  append.aligned = true;
  add("append with rotation", append);
  OperationKernel merge;
  merge.name = "merge_partials";
  merge.dtype = dtype;
  merge.other_dtype = DType::f32;
  merge.head_dim = merge.value_head_dim = dim;
  merge.aligned = true;
  add("merge", merge);
  if (extent == Extent::few) return specs;
  append.rotary_interleaved = true;
  append.rotary_dim = dim / 4 * 2;
  append.other_dtype = dtype;
  append.aligned = false;
  add("append with rotation of pairs, unaligned", append);
  append.rotary_dim = 0;
  append.aligned = true;
  add("append", append);
  merge.other_dtype = dtype;
  merge.aligned = false;
  add("merge of parts in the type, unaligned", merge);
  return specs;
}

}  // namespace

std::vector<DefaultSpec> default_specs(const std::string& arch, Extent extent) {
  std::vector<std::pair<int, int>> dims = {{128, 128}, {64, 64}, {256, 256}};
  if (extent == Extent::few) dims = {{128, 128}};
  if (extent == Extent::all) {
    dims.insert(dims.end(), {{32, 32},
                             {40, 40},
                             {59, 59},
                             {80, 80},
                             {96, 96},
                             {111, 33},
                             {112, 112},
                             {160, 160},
                             {192, 192},
                             {192, 128},
                             {208, 208},
                             {224, 224},
                             {240, 240},
                             {512, 512}});
  }
  platform::DeviceFacts device = plan::facts_of_architecture(arch);
  device.compute_units = 100;  // so that few heads over many keys are split
  std::vector<DefaultSpec> specs;
  const auto add = [&](DefaultSpec made) {
    const bool known = std::any_of(specs.begin(), specs.end(), [&](const DefaultSpec& other) {
      return other.spec == made.spec;
    });
    if (!known) specs.push_back(std::move(made));
  };
  for (const auto& [dim, value_dim] : dims) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      std::size_t count = extent == Extent::all ? std::size(kVariants) : kRepresentativeVariants;
      if (extent == Extent::few) count = 3;
      for (std::size_t i = 0; i < count; ++i) {
        Problem problem = plain_problem(dtype, dim, value_dim);
        kVariants[i].change(problem);
        add({to_string(dtype), kVariants[i].name, dim, value_dim,
             plan::plan_gpu(problem, device).spec});
      }
      if (extent != Extent::all && dim != dims.front().first) continue;
      for (DefaultSpec& made : operation_specs(arch, dtype, dim, extent)) add(std::move(made));
    }
  }
  return specs;
}

}  // namespace hipflash::testing
