#include "plan/gpu_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "gpu/tiles_cdna.h"
#include "gpu/tiles_nv.h"
#include "gpu/tiles_rdna.h"
#include "plan/kernel_facts.h"

namespace hipflash::plan {
namespace {

using platform::DeviceFacts;
using platform::GpuLaunch;
using TileNumbers = std::vector<std::pair<std::string, int>>;

// What a family adds to the facts of the Problem.
struct Family {
  const char* file;
  jit::CompilerKind compiler;
  std::vector<std::string> options;
};

unsigned grid_size(long long blocks) {
  if (blocks > 0x7fffffffLL) {
    fail(ErrorCode::NotSupported, "a grid of {} blocks is more than the 2147483647 of a launch",
         blocks);
  }
  return static_cast<unsigned>(blocks);
}

// Splits the keys when a grid would leave most of the device idle, into parts that are worth their
// merge.
int gpu_key_splits(long long blocks, int compute_units, int seq_k, int tile_keys) {
  if (blocks <= 0 || blocks * 10 >= 8LL * compute_units) return 1;
  const long long wanted = (compute_units + blocks - 1) / blocks;
  const long long possible = seq_k / (4LL * tile_keys);
  return static_cast<int>(std::clamp(std::min(wanted, possible), 1LL, 128LL));
}

std::string config_text(const TileNumbers& numbers, const DeviceFacts& device) {
  std::string text;
  for (const auto& [name, value] : numbers) text += fmt::format("{}={} ", name, value);
  return text + fmt::format("compute_units={}", device.compute_units);
}

// The steps that all families share, from facts and tile to the finished plan.
class Builder {
 public:
  Builder(const Problem& problem, const DeviceFacts& device)
      : bounds_(mask_bounds(problem)), device_(device), facts(facts_of(problem, bounds_)) {
    plan.args = arguments_of(problem, bounds_);
  }

  KernelPlan finish(const Family& family, const TileNumbers& tile, GpuLaunch launch,
                    const std::string& why) {
    const AttentionArgs& args = plan.args;
    facts.split_keys = args.splits > 1;
    launch.partial_bytes = partial_bytes(args);
    plan.spec.compiler = family.compiler;
    plan.spec.family = family.file;
    plan.spec.arch = device_.arch;
    plan.spec.facts = spec_members(facts, tile);
    plan.spec.options = family.options;
    plan.spec.label = describe(facts);
    plan.config = config_text(tile, device_);
    plan.reason = why;
    plan.work_items = launch.pieces ? launch.pieces : launch.forward.blocks;
    plan.workspace_bytes = launch.partial_bytes;
    plan.launch = launch;
    return std::move(plan);
  }

 private:
  MaskBounds bounds_;
  const DeviceFacts& device_;

 public:
  KernelFacts facts;
  KernelPlan plan;
};

template <std::size_t N>
std::vector<std::string> options_of(const char* const (&options)[N]) {
  return {std::begin(options), std::end(options)};
}

bool strides_within(const Problem& p, bool (*fits)(long long)) {
  for (const Strides* s : {&p.q, &p.k, &p.v, &p.out}) {
    if (!fits(s->seq)) return false;
  }
  return true;
}

KernelPlan plan_cdna(const Problem& problem, const DeviceFacts& device, cdna::Card card) {
  Builder builder(problem, device);
  AttentionArgs& args = builder.plan.args;
  builder.facts.aligned =
      builder.facts.aligned && strides_within(problem, cdna::stride_allows_vectors);
  const int bytes = builder.facts.element == ElementType::f32 ? 4 : 2;
  const cdna::Tile tile = cdna::default_tile(card, bytes, args.head_dim, args.value_head_dim);
  const auto blocks = [&](int splits) {
    return cdna::blocks(tile, args.batch, args.heads_q, args.seq_q, splits);
  };
  args.splits = gpu_key_splits(blocks(1), device.compute_units, args.seq_k, tile.tile_keys);
  GpuLaunch launch;
  launch.forward = {grid_size(blocks(args.splits)), static_cast<unsigned>(cdna::threads(tile)), 0};
  if (args.splits > 1) {
    launch.merge = {
        grid_size(cdna::merge_blocks(args.batch, args.heads_q, args.seq_q, args.value_head_dim)),
        cdna::kMergeThreads, 0};
  }
  return builder.finish(
      {"gpu/attention_forward.hip", jit::CompilerKind::hiprtc, options_of(cdna::kOptions)},
      {{"waves", tile.waves},
       {"mma_rows", tile.mma_rows},
       {"tile_keys", tile.tile_keys},
       {"waves_per_simd", tile.waves_per_simd},
       {"read_ahead", tile.read_ahead},
       {"dies", cdna::dies_of(card)},
       {"largest_head_dim", 512}},
      launch, "built-in default of matrix cores for " + device.arch);
}

KernelPlan plan_wmma(const Problem& problem, const DeviceFacts& device, int generation) {
  Builder builder(problem, device);
  AttentionArgs& args = builder.plan.args;
  builder.facts.aligned = builder.facts.aligned && strides_within(problem, [](long long stride) {
                            return stride >= 0 && stride <= rdna::kLargestAlignedStride;
                          });
  const KernelFacts& facts = builder.facts;
  const bool modified = facts.softcap || facts.alibi || facts.bias || facts.mask;
  const rdna::WmmaTile tile =
      rdna::wmma_default(generation, args.head_dim, args.value_head_dim, args.seq_q, modified);
  const auto blocks = [&](int splits) {
    return rdna::wmma_blocks(tile, args.batch, args.heads_q, args.seq_q, args.value_head_dim,
                             splits);
  };
  args.splits = gpu_key_splits(blocks(1), device.compute_units, args.seq_k, tile.tile_keys);
  GpuLaunch launch;
  launch.forward = {grid_size(blocks(args.splits)), static_cast<unsigned>(rdna::wmma_threads(tile)),
                    0};
  if (args.splits > 1) {
    launch.merge = {
        grid_size(rdna::merge_blocks(args.batch, args.heads_q, args.seq_q, args.value_head_dim)),
        rdna::kMergeThreads, 0};
  }
  return builder.finish(
      {"gpu/attention_forward_rdna.hip", jit::CompilerKind::hiprtc, options_of(rdna::kOptions)},
      {{"waves", tile.waves},
       {"query_tiles", tile.query_tiles},
       {"tile_keys", tile.tile_keys},
       {"query_shared", tile.query_shared},
       {"value_slice", tile.value_slice}},
      launch, "built-in default of WMMA for " + device.arch);
}

KernelPlan plan_sm80(const Problem& problem, const DeviceFacts& device, const std::string& why) {
  Builder builder(problem, device);
  AttentionArgs& args = builder.plan.args;
  const Sm80Tile tile =
      sm80_default(args.head_dim, args.value_head_dim, static_cast<int>(device.shared_bytes));
  args.splits =
      gpu_key_splits(sm80_blocks(tile, args), device.compute_units, args.seq_k, tile.tile_keys);
  GpuLaunch launch;
  launch.forward = {
      grid_size(sm80_blocks(tile, args)), static_cast<unsigned>(sm80_threads(tile)),
      static_cast<unsigned>(sm80_shared_bytes(tile, args.head_dim, args.value_head_dim))};
  if (args.splits > 1) {
    launch.merge = {
        grid_size((static_cast<long long>(args.batch) * args.heads_q * args.seq_q + 3) / 4), 128,
        0};
  }
  return builder.finish({"gpu/attention_forward_sm80.cu",
                         jit::CompilerKind::nvrtc,
                         {"--std=c++17", "-default-device"}},
                        {{"tile_keys", tile.tile_keys},
                         {"waves", tile.waves},
                         {"row_tiles", tile.row_tiles},
                         {"stages", tile.stages},
                         {"blocks_per_sm", tile.blocks_per_sm},
                         {"q_in_registers", tile.q_in_registers},
                         {"pack_heads", tile.pack_heads}},
                        launch, why);
}

// Whether the copy engine can address the tensors; sm90_takes() with the Problem's promises in
// place of pointers.
bool wgmma_takes(const Problem& problem, AttentionArgs args) {
  if (!problem.aligned || problem.seq_k == 0) return false;
  alignas(16) static const char aligned[16] = {};
  args.q = args.k = args.v = aligned;
  args.out = const_cast<char*>(aligned);
  return sm90_takes(args, static_cast<ElementType>(problem.dtype), problem.features.bias,
                    problem.features.mask, problem.features.sinks);
}

KernelPlan plan_sm90(const Problem& problem, const DeviceFacts& device) {
  Builder builder(problem, device);
  const AttentionArgs& args = builder.plan.args;
  const Sm90Tile tile = sm90_default(args.head_dim, args.value_head_dim);
  GpuLaunch launch;
  launch.pieces = grid_size(sm90_pieces(tile, args));
  launch.forward = {
      std::min(launch.pieces, static_cast<unsigned>(device.compute_units)),
      static_cast<unsigned>(sm90_threads(tile)),
      static_cast<unsigned>(sm90_shared_bytes(tile, args.head_dim, args.value_head_dim))};
  launch.tensor_maps = tile;
  launch.bf16 = builder.facts.element == ElementType::bf16;
  return builder.finish({"gpu/attention_forward_sm90.cu",
                         jit::CompilerKind::nvrtc,
                         {"--std=c++17", "-default-device"}},
                        {{"tile_keys", tile.tile_keys},
                         {"query_groups", tile.query_groups},
                         {"stages", tile.stages},
                         {"q_stages", tile.q_stages},
                         {"take_turns", tile.take_turns}},
                        launch, "built-in default of wgmma for " + device.arch);
}

KernelPlan plan_nvidia(const Problem& problem, const DeviceFacts& device) {
  if (problem.dtype == DType::f32) {
    fail(ErrorCode::NotSupported, "f32 on {}: this feature is not built yet", device.arch);
  }
  if (device.arch == "sm_90a") {
    const Builder probe(problem, device);
    if (wgmma_takes(problem, probe.plan.args)) return plan_sm90(problem, device);
    return plan_sm80(problem, device, "mma.sync: wgmma does not take these strides or features");
  }
  return plan_sm80(problem, device, "built-in default of mma.sync for " + device.arch);
}

}  // namespace

KernelPlan plan_gpu(const Problem& problem, const DeviceFacts& device) {
  if (device.kind == platform::Kind::cuda) return plan_nvidia(problem, device);
  const cdna::Card card = cdna::card_of(device.arch.c_str());
  if (card != cdna::Card::none) return plan_cdna(problem, device, card);
  const int generation = rdna::wmma_generation(device.arch.c_str());
  if (generation == 0) {
    fail(ErrorCode::NotSupported, "arch {}: no kernel family serves it yet", device.arch);
  }
  if (problem.dtype == DType::f32) {
    fail(ErrorCode::NotSupported, "f32 on {}: this feature is not built yet", device.arch);
  }
  return plan_wmma(problem, device, generation);
}

DeviceFacts facts_of_architecture(const std::string& arch) {
  DeviceFacts facts;
  facts.arch = arch;
  facts.name = arch;
  facts.compute_units = 1;  // never splits keys: a kernel made ahead serves the usual case
  if (arch.rfind("gfx", 0) == 0) {
    facts.kind = platform::Kind::hip;
    facts.shared_bytes = 64 * 1024;
    return facts;
  }
  if (arch.rfind("sm_", 0) == 0) {
    facts.kind = platform::Kind::cuda;
    const bool small = arch == "sm_86" || arch == "sm_89" || arch == "sm_120";
    facts.shared_bytes = arch == "sm_90a" || arch == "sm_90" || arch == "sm_100" ? 227 * 1024
                         : small                                                 ? 99 * 1024
                                                                                 : 163 * 1024;
    return facts;
  }
  fail(ErrorCode::InvalidArgument,
       "arch = \"{}\" must be a CPU architecture of `hipflash info`, gfx... or sm_...", arch);
}

}  // namespace hipflash::plan
