#include "gpu_compile/default_specs.h"

#include <algorithm>
#include <utility>

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

constexpr Variant kVariants[] = {
    {"full", [](Problem&) {}},
    {"causal", [](Problem& p) { p.causal = true; }},
    {"everything",
     [](Problem& p) {
       p.window = {300, 7};
       p.softcap = 30.0f;
       p.features.alibi = p.features.bias = p.features.mask = true;
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
};
constexpr std::size_t kRepresentativeVariants = 12;

Problem plain_problem(DType dtype, int head_dim, int value_head_dim) {
  Problem p;
  p.dtype = dtype;
  p.batch = 8;
  p.heads_q = p.heads_kv = 16;
  p.seq_q = p.seq_k = 4096;
  p.head_dim = head_dim;
  p.value_head_dim = value_head_dim;
  p.features.lse = true;
  p.set_dense_bshd();
  return p;
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
                             {160, 160},
                             {192, 192},
                             {192, 128},
                             {224, 224},
                             {512, 512}});
  }
  platform::DeviceFacts device = plan::facts_of_architecture(arch);
  device.compute_units = 100;  // so that few heads over many keys are split
  std::vector<DefaultSpec> specs;
  for (const auto& [dim, value_dim] : dims) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      std::size_t count = extent == Extent::all ? std::size(kVariants) : kRepresentativeVariants;
      if (extent == Extent::few) count = 3;
      for (std::size_t i = 0; i < count; ++i) {
        Problem problem = plain_problem(dtype, dim, value_dim);
        kVariants[i].change(problem);
        jit::Spec spec = plan::plan_gpu(problem, device).spec;
        const bool known = std::any_of(specs.begin(), specs.end(), [&](const DefaultSpec& other) {
          return other.spec == spec;
        });
        if (!known) {
          specs.push_back({to_string(dtype), kVariants[i].name, dim, value_dim, std::move(spec)});
        }
      }
    }
  }
  return specs;
}

}  // namespace hipflash::testing
