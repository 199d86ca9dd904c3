#include "plan/kernel_facts.h"

#include <iterator>

#include "core/fail.h"
#include "core/format.h"
#include "plan/tile_choice.h"

namespace hipflash::plan {
namespace {

RowStrides row_strides(const Strides& s) {
  return {s.batch, s.seq, s.head};
}
CellStrides cell_strides(const ScoreStrides& s) {
  return {s.batch, s.head, s.query, s.key};
}

}  // namespace

KernelFacts facts_of(const Problem& problem, const MaskBounds& bounds) noexcept {
  KernelFacts facts;
  facts.element = static_cast<ElementType>(problem.dtype);
  facts.head_dim = static_cast<int>(problem.head_dim);
  facts.value_head_dim = static_cast<int>(problem.value_head_dim);
  facts.window_left = bounds.has_left;
  facts.window_right = bounds.has_right;
  facts.softcap = problem.softcap > 0.0f;
  facts.alibi = problem.features.alibi;
  facts.bias = problem.features.bias;
  facts.mask = problem.features.mask;
  facts.sinks = problem.features.sinks;
  facts.ragged = problem.features.ragged();
  facts.paged = problem.features.paged_kv;
  facts.lse = problem.features.lse;
  facts.aligned = problem.aligned;
  return facts;
}

KernelFacts general_facts(ElementType element) noexcept {
  KernelFacts facts;
  facts.element = element;
  facts.window_left = facts.window_right = true;
  facts.softcap = facts.alibi = facts.bias = facts.mask = facts.lse = true;
  facts.sinks = facts.ragged = facts.paged = facts.split_keys = true;
  return facts;
}

KernelFacts general_facts(const Problem& problem) noexcept {
  KernelFacts facts = general_facts(static_cast<ElementType>(problem.dtype));
  facts.head_dim = static_cast<int>(problem.head_dim);
  facts.value_head_dim = static_cast<int>(problem.value_head_dim);
  facts.paged = problem.features.paged_kv;
  facts.aligned = problem.aligned;
  return facts;
}

std::string spec_members(const KernelFacts& facts,
                         const std::vector<std::pair<std::string, int>>& tile) {
  std::string text = fmt::format("  static constexpr ElementType element = ElementType::{};\n",
                                 element_name(facts.element));
  const auto number = [&](const std::string& name, int value) {
    fmt::format_to(std::back_inserter(text), "  static constexpr int {} = {};\n", name, value);
  };
  const auto flag = [&](const char* name, bool value) {
    fmt::format_to(std::back_inserter(text), "  static constexpr bool {} = {};\n", name, value);
  };
  number("head_dim", facts.head_dim);
  number("value_head_dim", facts.value_head_dim);
  flag("window_left", facts.window_left);
  flag("window_right", facts.window_right);
  flag("softcap", facts.softcap);
  flag("alibi", facts.alibi);
  flag("bias", facts.bias);
  flag("mask", facts.mask);
  flag("sinks", facts.sinks);
  flag("ragged", facts.ragged);
  flag("paged", facts.paged);
  flag("lse", facts.lse);
  flag("split_keys", facts.split_keys);
  flag("aligned", facts.aligned);
  for (const auto& [name, value] : tile) number(name, value);
  return text;
}

std::string describe(const KernelFacts& facts) {
  std::string text = element_name(facts.element);
  const bool general = facts.softcap && facts.alibi && facts.bias && facts.mask && facts.sinks &&
                       facts.ragged && facts.split_keys;
  if (general && facts.head_dim != 0) {
    text += facts.head_dim == facts.value_head_dim
                ? fmt::format(" d{} general", facts.head_dim)
                : fmt::format(" d{}/{} general", facts.head_dim, facts.value_head_dim);
    if (facts.paged) text += " paged";
    return facts.aligned ? text : text + " unaligned";
  }
  if (facts.head_dim == 0) {
    text += " any head dimension";
  } else if (facts.head_dim == facts.value_head_dim) {
    fmt::format_to(std::back_inserter(text), " d{}", facts.head_dim);
  } else {
    fmt::format_to(std::back_inserter(text), " d{}/{}", facts.head_dim, facts.value_head_dim);
  }
  if (facts.window_right) text += facts.window_left ? " window" : " causal";
  if (facts.window_left && !facts.window_right) text += " left window";
  if (facts.softcap) text += " softcap";
  if (facts.alibi) text += " alibi";
  if (facts.bias) text += " bias";
  if (facts.mask) text += " mask";
  if (facts.sinks) text += " sinks";
  if (facts.paged) {
    text += " paged";
  } else if (facts.ragged) {
    text += " ragged";
  }
  if (facts.lse) text += " lse";
  if (facts.split_keys) text += " split";
  if (!facts.aligned) text += " unaligned";
  return text;
}

AttentionArgs arguments_of(const Problem& problem, const MaskBounds& bounds) noexcept {
  AttentionArgs args = {};
  args.q_stride = row_strides(problem.q);
  args.k_stride = row_strides(problem.k);
  args.v_stride = row_strides(problem.v);
  args.out_stride = row_strides(problem.out);
  args.lse_stride = row_strides(problem.lse);
  args.bias_stride = cell_strides(problem.bias);
  args.mask_stride = cell_strides(problem.mask);
  args.alibi_batch_stride = problem.alibi_batch_stride;
  args.alibi_head_stride = problem.alibi_head_stride;
  args.batch = static_cast<int>(problem.batch);
  args.heads_q = static_cast<int>(problem.heads_q);
  args.heads_kv = static_cast<int>(problem.heads_kv);
  args.seq_q = static_cast<int>(problem.seq_q);
  args.seq_k = static_cast<int>(problem.seq_k);
  args.head_dim = static_cast<int>(problem.head_dim);
  args.value_head_dim = static_cast<int>(problem.value_head_dim);
  args.bias_type = static_cast<ElementType>(problem.bias_dtype);
  args.diagonal = bounds.diagonal;
  args.window_left = bounds.left;
  args.window_right = bounds.right;
  args.alibi_diagonal = args.seq_k - args.seq_q;
  args.scale = problem.scale;
  args.softcap = problem.softcap;
  const Ragged& ragged = problem.ragged;
  args.offsets_are_64bit = ragged.offsets_are_64bit ? 1 : 0;
  args.bottom_right = problem.alignment == MaskAlignment::bottom_right ? 1 : 0;
  args.total_q = static_cast<int>(ragged.total_q);
  args.total_k = static_cast<int>(ragged.total_k);
  args.kv_slots = static_cast<int>(ragged.kv_slots);
  args.page_size = static_cast<int>(ragged.page_size);
  args.pages = static_cast<int>(ragged.pages);
  args.pages_per_sequence = static_cast<int>(ragged.pages_per_sequence);
  args.block_table_stride = ragged.block_table_stride;
  args.splits = 1;
  args.partial_batch = ragged.packed_q ? 1 : args.batch;
  args.partial_seq = ragged.packed_q ? args.total_q : args.seq_q;
  return args;
}

}  // namespace hipflash::plan
