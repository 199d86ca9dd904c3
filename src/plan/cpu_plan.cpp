#include "plan/cpu_plan.h"

#include <sstream>

#include "core/format.h"
#include "cpu/shape.h"
#include "plan/kernel_facts.h"
#include "plan/tile_lists.h"
#include "platform/cpu/isa.h"

namespace hipflash::plan {
namespace {

constexpr const char* kFamily = "cpu/attention_forward.cpp";

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string describe(const CpuShape& shape) {
  if (shape.chunk_rows == 0) return "";
  std::string text = shape.chunk_rows == 1             ? " one row"
                     : shape.chunk_rows <= kCpuFewRows ? " few rows"
                                                       : " many rows";
  if (shape.few_keys > 0) text += fmt::format(" of {} keys", shape.few_keys);
  return text;
}

// Where bits must not depend on what else is in a call, one kernel has all ways.
CpuShape shape_of(const Problem& problem, const KernelFacts& facts) {
  if (problem.batch_invariant || problem.ragged.packed_q) return {};
  const bool keys_known = !facts.ragged && !facts.window_left && !facts.window_right;
  return cpu_shape(problem.seq_q * (problem.heads_q / problem.heads_kv),
                   keys_known ? problem.seq_k : 0);
}

jit::Spec cpu_spec(CpuIsa isa, const KernelFacts& facts, const CpuShape& shape,
                   const CpuTile& tile) {
  jit::Spec spec;
  spec.compiler = jit::CompilerKind::host;
  spec.family = kFamily;
  spec.arch = platform::arch_of(isa);
  TileNumbers numbers = numbers_of(tile);
  numbers.emplace_back("chunk_rows", shape.chunk_rows);
  numbers.emplace_back("few_keys", shape.few_keys);
  spec.facts = spec_members(facts, numbers);
  spec.options = split_words(std::string(kCpuKernelOptions) + " " + cpu_isa_facts(isa).options);
  spec.label = fmt::format("{}{}, {}x{}", describe(facts), describe(shape), tile.tile_queries,
                           tile.tile_keys);
  return spec;
}

}  // namespace

jit::Spec general_cpu_spec(CpuIsa isa, ElementType element) {
  return cpu_spec(isa, general_facts(element), {}, cpu_default_tile(isa, element, 0, 0));
}

KernelPlan plan_cpu(const Problem& problem, CpuIsa best, int threads, Kernel kernel,
                    const TileSource* tuned) {
  const MaskBounds bounds = mask_bounds(problem);
  KernelFacts facts = facts_of(problem, bounds);
  const CpuIsa isa = platform::isa_for(best, facts.element);
  const bool general = kernel == Kernel::general;
  KernelPlan plan;
  plan.args = arguments_of(problem, bounds);
  const CpuTile tile =
      general ? cpu_default_tile(isa, facts.element, 0, 0)
              : choose_tile(
                    // Whatever the batch, one kernel.
                    problem.batch_invariant ? nullptr : tuned, tile_key(kFamily, facts, plan.args),
                    cpu_default_tile(isa, facts.element, facts.head_dim, facts.value_head_dim),
                    [&] { return cpu_tiles(isa); }, plan.tile);
  if (problem.batch_invariant) plan.args.keys_per_split = kFixedKeysPerSplit;
  plan.args.splits = cpu_key_splits(plan.args, tile, threads);
  platform::CpuLaunch launch;
  launch.work = plan_cpu_work(plan.args, tile, threads);
  launch.work.cache_bytes = platform::last_level_cache_bytes();
  launch.partial_bytes = platform::partial_bytes(plan.args);
  launch.ragged = facts.ragged;
  launch.tile = tile;
  launch.threads = threads;
  facts.split_keys = plan.args.splits > 1 || problem.batch_invariant || facts.ragged;
  plan.launch = launch;
  plan.work_items = launch.work.items;
  plan.workspace_bytes =
      static_cast<std::size_t>(launch.work.scratch_bytes) * static_cast<std::size_t>(threads) +
      launch.partial_bytes;
  plan.spec = general ? general_cpu_spec(isa, facts.element)
                      : cpu_spec(isa, facts, shape_of(problem, facts), tile);
  plan.config = fmt::format("isa={} {} rows_per_item={} threads={}", cpu_isa_facts(isa).name,
                            to_text(numbers_of(tile)), launch.work.rows_per_item, threads);
  plan.reason =
      general ? "general kernel: there is no specialized one and no compiler to make it"
              : reason_of(plan.tile, plan.tile.is_default ? fmt::format("built-in default for {}",
                                                                        cpu_isa_facts(isa).name)
                                                          : "tuned");
  return plan;
}

}  // namespace hipflash::plan
