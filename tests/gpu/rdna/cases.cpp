#include "cases.h"

namespace rdna_test {
namespace {

using hipflash::ElementType;

// Masks, tails, features and numbers; element type and head dim from `base`.
std::vector<Case> feature_cases(const Case& base) {
  std::vector<Case> cases;
  const auto add = [&](const char* name, auto change) {
    Case c = base;
    c.name = base.name + " " + name;
    change(c);
    cases.push_back(c);
  };
  add("full", [](Case&) {});
  add("causal", [](Case& c) { c.causal = true; });
  add("causal, more queries than keys",
      [](Case& c) { c.causal = true, c.seq_q = 100, c.seq_k = 41; });
  add("causal top left",
      [](Case& c) { c.causal = c.top_left = c.hidden_nan = true, c.seq_q = 40, c.seq_k = 150; });
  add("window 20,9", [](Case& c) { c.left = 20, c.right = 9, c.seq_q = c.seq_k = 150; });
  add("window 40,0", [](Case& c) { c.left = 40, c.right = 0, c.hidden_nan = true, c.seq_k = 190; });
  add("window 3,-1", [](Case& c) { c.left = 3, c.seq_k = 50; });
  add("one key", [](Case& c) { c.seq_k = 1; });
  add("one query", [](Case& c) { c.seq_q = 1, c.seq_k = 70, c.causal = true; });
  add("no keys", [](Case& c) { c.seq_k = 0; });
  add("grouped heads, two batches", [](Case& c) {
    c.batch = 2, c.heads_q = 6, c.heads_kv = 2, c.seq_q = 17, c.seq_k = 35, c.layout = Layout::bshd;
  });
  add("padded rows", [](Case& c) { c.layout = Layout::padded, c.seq_q = 33; });
  add("odd rows", [](Case& c) { c.layout = Layout::odd, c.seq_q = 33; });
  add("backward rows", [](Case& c) { c.layout = Layout::backward, c.seq_q = 33; });
  add("softcap", [](Case& c) { c.softcap = 5, c.size = 2, c.causal = true; });
  add("alibi", [](Case& c) { c.alibi = true, c.causal = true; });
  add("bias f32", [](Case& c) { c.bias = true; });
  add("bias f16 causal", [](Case& c) { c.bias = c.causal = true, c.bias_type = ElementType::f16; });
  add("bias bf16", [](Case& c) { c.bias = true, c.bias_type = ElementType::bf16; });
  add("mask with empty rows", [](Case& c) { c.mask = Mask::scattered; });
  add("mask over NaN padding", [](Case& c) { c.mask = Mask::padding, c.hidden_nan = true; });
  add("NaN in Q and K", [](Case& c) { c.seen_nan = true; });
  add("scale 0", [](Case& c) { c.scale = 0, c.causal = true; });
  add("scale -0.3", [](Case& c) { c.scale = -0.3f, c.causal = true; });
  add("large logits", [](Case& c) { c.size = 4, c.causal = true; });
  add("logits near -6e4", [](Case& c) { c.scale = -300, c.q_offset = 3, c.size = 1.5f; });
  add("late reference", [](Case& c) { c.left = 12, c.right = 0, c.scale = -2, c.seq_k = 190; });
  add("all features, none used", [](Case& c) { c.all_features = true; });
  add("all features, all used", [](Case& c) {
    c.all_features = c.bias = c.alibi = true, c.softcap = 8, c.mask = Mask::scattered;
    c.left = 60, c.right = 30;
  });
  add("3 splits", [](Case& c) { c.splits = 3, c.seq_k = 190; });
  add("5 splits, causal, some empty", [](Case& c) { c.splits = 5, c.causal = true, c.seq_k = 60; });
  return cases;
}

void append(std::vector<Case>& to, const std::vector<Case>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Full, causal and unaligned for a head dim and a value head dim.
std::vector<Case> dim_cases(ElementType element, const char* name, int head_dim, int value_dim) {
  std::vector<Case> cases;
  Case base;
  base.element = element, base.head_dim = head_dim, base.value_dim = value_dim;
  base.heads_q = 1, base.seq_q = 33, base.seq_k = 75;
  base.name = std::string(name) + " d" + std::to_string(head_dim);
  if (value_dim != head_dim) base.name += "/" + std::to_string(value_dim);
  Case c = base;
  c.name += " full";
  cases.push_back(c);
  c = base;
  c.name += " causal odd rows";
  c.causal = true;
  c.layout = Layout::odd;
  cases.push_back(c);
  return cases;
}

}  // namespace

std::vector<Case> wmma_cases() {
  std::vector<Case> cases;
  Case base;
  base.name = "f16 d64";
  append(cases, feature_cases(base));
  base.name = "bf16 d128";
  base.element = ElementType::bf16, base.head_dim = base.value_dim = 128;
  append(cases, feature_cases(base));
  const int dims[][2] = {{1, 1},     {8, 8},     {16, 16},   {32, 32},   {40, 40},   {59, 59},
                         {80, 80},   {96, 96},   {111, 111}, {128, 128}, {160, 160}, {192, 192},
                         {224, 224}, {256, 256}, {64, 128},  {192, 128}, {128, 40},  {512, 512},
                         {300, 300}, {512, 64},  {64, 512},  {384, 384}};
  for (const auto& dim : dims) {
    append(cases, dim_cases(ElementType::f16, "f16", dim[0], dim[1]));
    append(cases, dim_cases(ElementType::bf16, "bf16", dim[0], dim[1]));
  }
  for (const int dim : {64, 128, 256}) {
    int n = 0;
    for (const hipflash::rdna::WmmaTile& tile : hipflash::rdna::kWmmaTiles) {
      Case c;
      c.name = "f16 d" + std::to_string(dim) + " listed tile " + std::to_string(n++);
      c.head_dim = c.value_dim = dim;
      c.heads_q = 1, c.seq_q = 150, c.seq_k = 143, c.causal = true;
      c.wmma_tile = tile;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> dot_cases() {
  std::vector<Case> cases;
  Case base;
  base.name = "f32 d64";
  base.element = ElementType::f32;
  append(cases, feature_cases(base));
  base.name = "f16 d40";
  base.element = ElementType::f16, base.head_dim = base.value_dim = 40;
  append(cases, feature_cases(base));
  base.name = "bf16 d128";
  base.element = ElementType::bf16, base.head_dim = base.value_dim = 128;
  base.heads_q = 1, base.seq_q = 40;
  append(cases, feature_cases(base));
  const int dims[][2] = {{1, 1},     {32, 32},   {59, 59},   {96, 96}, {128, 128},
                         {256, 256}, {512, 512}, {192, 128}, {64, 300}};
  for (const auto& dim : dims) {
    append(cases, dim_cases(ElementType::f32, "f32", dim[0], dim[1]));
    append(cases, dim_cases(ElementType::f16, "f16", dim[0], dim[1]));
    append(cases, dim_cases(ElementType::bf16, "bf16", dim[0], dim[1]));
  }
  return cases;
}

}  // namespace rdna_test
