#include "plan/gpu_builder.h"

#include <algorithm>

#include "core/fail.h"

namespace hipflash::plan {

unsigned grid_size(long long blocks) {
  if (blocks > 0x7fffffffLL) {
    fail(ErrorCode::NotSupported, "a grid of {} blocks is more than the 2147483647 of a launch",
         blocks);
  }
  return static_cast<unsigned>(blocks);
}

long long TileGrid::blocks(const AttentionArgs& args) const {
  return row_tiles(problem, args, tile_rows, pack_heads) *
         (pack_heads ? args.heads_kv : args.heads_q) * slices * std::max(args.splits, 1);
}

void TileGrid::split_keys(AttentionArgs& args, int tile_keys) const {
  if (problem.batch_invariant) {
    const InvariantSplit split = invariant_split(problem, args);
    args.splits = split.splits;
    args.keys_per_split = split.keys_per_split;
    // Families that walk whole tiles would leave out what is between two parts.
    if (split.keys_per_split % tile_keys != 0) {
      fail(ErrorCode::Internal, "parts of {} keys are not whole tiles of {} keys",
           split.keys_per_split, tile_keys);
    }
  } else {
    args.splits = key_splits(blocks(args), slots, keys > 0 ? keys : args.seq_k, tile_keys, fill);
  }
}

Builder::Builder(const Problem& problem, const Target& target)
    : bounds_(mask_bounds(problem)),
      device_(target.device),
      // Whatever the batch, or the problem, one kernel.
      tuned_(problem.batch_invariant || target.general() ? nullptr : target.tuned),
      general_(target.general()),
      facts(general_ ? general_facts(problem) : facts_of(problem, bounds_)) {
  plan_.args = arguments_of(problem, bounds_);
}

KernelPlan Builder::finish(const Family& family, const Config& config, const TileGrid& grid,
                           const Merge& merge, const std::string& why) {
  AttentionArgs& args = plan_.args;
  grid.split_keys(args, config.tile_keys);
  platform::GpuLaunch launch;
  launch.forward = {grid_size(grid.blocks(args)), static_cast<unsigned>(config.threads),
                    static_cast<unsigned>(config.shared_bytes), false,
                    static_cast<unsigned>(config.thread_rows)};
  if (args.splits > 1) {
    launch.merge = {grid_size(merge.blocks(args)), merge.threads, 0, merge.begins_early};
  }
  launch.partial_bytes = platform::partial_bytes(args);
  return finish(family, config, launch, why);
}

KernelPlan Builder::finish(const Family& family, const Config& config,
                           const platform::GpuLaunch& launch, const std::string& why) {
  facts.split_keys =
      facts.split_keys || general_ || plan_.args.splits > 1 || plan_.args.keys_per_split > 0;
  plan_.spec.compiler = family.compiler;
  plan_.spec.family = family.file;
  plan_.spec.arch = device_.arch;
  plan_.spec.facts = spec_members(facts, config.numbers);
  plan_.spec.options = family.options;
  plan_.spec.label = describe(facts);
  plan_.config = fmt::format("{} compute_units={}", to_text(config.numbers), device_.compute_units);
  plan_.reason =
      general_
          ? "general kernel of " + why
          : reason_of(plan_.tile,
                      (plan_.tile.is_default ? "built-in default of " : "tuned config of ") + why);
  plan_.work_items = launch.pieces ? launch.pieces : launch.forward.blocks;
  plan_.workspace_bytes = launch.partial_bytes;
  plan_.launch = launch;
  return std::move(plan_);
}

bool takes_page_tiles(const Problem& problem) {
  return problem.features.paged_kv || (problem.batch_invariant && problem.features.ragged());
}

long long slots_of(const platform::DeviceFacts& device, int blocks_of_unit) {
  return device.compute_units > 1 ? static_cast<long long>(device.compute_units) * blocks_of_unit
                                  : 0;
}

}  // namespace hipflash::plan
