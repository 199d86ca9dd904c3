#include "plan/nv_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/tiles_nv.h"
#include "plan/row_tiles.h"
#include "plan/tile_lists.h"

namespace hipflash::plan {
namespace {

using platform::DeviceFacts;
using platform::GpuLaunch;

const Family kSm80{
    "gpu/attention_forward_sm80.cu", jit::CompilerKind::nvrtc, {"--std=c++17", "-default-device"}};
const Family kSm90{
    "gpu/attention_forward_sm90.cu", jit::CompilerKind::nvrtc, {"--std=c++17", "-default-device"}};
const Family kNvF32{
    "gpu/attention_forward_nvf32.cu", jit::CompilerKind::nvrtc, {"--std=c++17", "-default-device"}};

const Family kNvF16x3{"gpu/attention_forward_nvf16x3.cu",
                      jit::CompilerKind::nvrtc,
                      {"--std=c++17", "-default-device"}};

// attention_merge of the NVIDIA families, which waits for the forward kernel by itself.
const Merge kNvMerge{[](const AttentionArgs& a) { return nv_merge_blocks(a); }, nv_merge_threads(),
                     true};

constexpr int kShortSequence = 512;   // queries
constexpr int kHighPagedTiles = 256;  // queries, from which on
constexpr int kSharedOfHighTiles = 140 * 1024;
// Shared memory that each block of a multiprocessor takes beside its own.
constexpr int kBlockOverhead = 1024;
// Of how full blocks with few rows should fill a device: they wait for memory, which idle
// multiprocessors do not ask for anything, and their merge costs little.
constexpr double kNvFill = 0.95;

// The most keys that the queries of a sequence see, which these families share out among splits.
int keys_of_a_call(const AttentionArgs& args) {
  const long long seen = static_cast<long long>(args.window_left) + args.window_right + args.seq_q;
  return static_cast<int>(std::min<long long>(args.seq_k, seen));
}

template <class Tile>
int paged_bytes(const Builder& builder, const Tile& tile) {
  return builder.facts.paged ? nv_paged_bytes(tile.tile_keys) : 0;
}

// These families fold a positive scale into the exponential. Any other takes the path of modified
// scores, which a softcap of 0 asks for without changing a score.
Builder nv_builder(const Problem& problem, const Target& target) {
  Builder builder(problem, target);
  if (!(builder.args().scale > 0.0f)) builder.facts.softcap = true;
  return builder;
}

// A window with a left edge alone, which takes registers.
bool left_edge_alone(const Builder& builder) {
  return builder.facts.window_left && !builder.facts.window_right;
}

// Rows of (query, head of the group) that one narrow block of the mma.sync family holds: few
// queries share the reading of K and V, and split keys keep the device busy.
bool few_rows(const Problem& problem, const Target& target, const AttentionArgs& args) {
  return !target.general() && queries_of_choice(problem) > 0 && packed_rows(args) <= 32 &&
         args.head_dim <= 128 && args.value_head_dim <= 128;
}

// Of long keys, what each part of a block has at least.
constexpr int kKeysOfPart = 1024;

// The default tile of few rows: blocks of one or two warps, of which a multiprocessor holds four;
// or as many in one block, which share its keys and join what they found without a launch of their
// own, where such blocks fill the device at once, or with keys that are long enough to be split.
// Which number of parts is the fastest was measured on an H200.
Sm80Tile few_rows_tile(const Problem& problem, const AttentionArgs& args,
                       const DeviceFacts& device) {
  Sm80Tile tile = {32, packed_rows(args) > 16 ? 2 : 1, 1, 3, 4, false, true, 1};
  const long long blocks = row_tiles(problem, args, sm80_tile_rows(tile), true) * args.heads_kv;
  const long long units = device.compute_units;
  if (problem.batch_invariant || units <= 1 || blocks > units) return tile;
  const bool at_once = blocks * 10 >= units * 8;
  const bool wide = std::max(args.head_dim, args.value_head_dim) > 64;
  const int wanted = at_once && wide && !problem.features.paged_kv ? 3 : 4;
  // Pages need a little more memory, and are to have the tile of calls without.
  const int bytes = sm80_part_bytes(tile, args.head_dim, args.value_head_dim, true) + 128;
  const int parts = std::min(wanted, static_cast<int>(device.shared_bytes) / bytes);
  const int splits =
      at_once ? 1
              : key_splits(blocks, units, keys_of_a_call(args), tile.tile_keys * parts, kNvFill);
  if (parts > 1 && keys_of_a_call(args) >= kKeysOfPart * parts * splits) {
    tile.key_parts = parts;
    tile.blocks_per_sm = 1;
  }
  return tile;
}

Sm80Tile sm80_tile(const Problem& problem, Builder& builder, const Target& target) {
  const DeviceFacts& device = target.device;
  const AttentionArgs& args = builder.args();
  const int dim = args.head_dim, value_dim = args.value_head_dim;
  const int shared = static_cast<int>(device.shared_bytes);
  if (few_rows(problem, target, args)) {
    return builder.choose(
        kSm80, few_rows_tile(problem, args, device),
        [&] { return sm80_tiles(dim, value_dim, shared, true); }, "packed");
  }
  // Few blocks get their keys split, which takes registers too where rows are long.
  const long long rows = static_cast<long long>(args.seq_q) * args.batch * args.heads_q;
  const bool few_long_rows = std::max(dim, value_dim) > 128 &&
                             (problem.batch_invariant || rows < 64LL * device.compute_units);
  // So do the places of rows in pages, and a window with a left edge alone.
  const bool modified = builder.modified() || !builder.facts.aligned || takes_page_tiles(problem) ||
                        few_long_rows || left_edge_alone(builder);
  Sm80Tile standard = sm80_default(dim, value_dim, modified, builder.facts.window_left, shared);
  // Of short packed sequences high tiles would waste many rows.
  const int widest = std::max(dim, value_dim);
  if (problem.ragged.packed_q && !modified && widest > 64 && widest <= 128 &&
      args.seq_q <= kShortSequence) {
    standard.row_tiles = 1;
    standard.blocks_per_sm = 3;
  }
  // Many queries over pages are worth high tiles without what places leave no registers for: Q
  // in registers, or above 64 columns a second stage.
  if (problem.features.paged_kv && !problem.batch_invariant && !builder.modified() &&
      builder.facts.aligned && args.seq_q >= kHighPagedTiles && shared > kSharedOfHighTiles &&
      (widest <= 64 ||
       (std::min(dim, value_dim) > 80 && widest <= 128 && !builder.facts.window_left))) {
    standard = {64, 4, 2, widest <= 64 ? 2 : 1, 2, false, false, 1};
  }
  // Finding their work takes registers as well.
  if (problem.ragged.packed_q && widest > 192)
    standard.tile_keys = std::min(standard.tile_keys, 48);
  return builder.choose(kSm80, standard, [&] { return sm80_tiles(dim, value_dim, shared, false); });
}

KernelPlan plan_sm80(const Problem& problem, Builder builder, const Target& target,
                     const std::string& why) {
  const DeviceFacts& device = target.device;
  const int dim = builder.args().head_dim, value_dim = builder.args().value_head_dim;
  const Sm80Tile tile = sm80_tile(problem, builder, target);
  const int bytes = sm80_shared_bytes(tile, dim, value_dim, builder.facts.paged);
  const int fitting = static_cast<int>((device.shared_bytes + kBlockOverhead) /
                                       static_cast<std::size_t>(bytes + kBlockOverhead));
  const int blocks_of_unit = std::clamp(tile.pack_heads ? fitting : 1, 1, tile.blocks_per_sm);
  if (tile.key_parts > 1) builder.facts.split_keys = true;  // one kernel, split or not
  return builder.finish(kSm80,
                        {numbers_of(tile), tile.tile_keys * tile.key_parts, sm80_threads(tile),
                         bytes, tile.key_parts},
                        {problem, sm80_tile_rows(tile), nv_value_chunks(value_dim), tile.pack_heads,
                         slots_of(device, blocks_of_unit), tile.pack_heads ? kNvFill : kUsualFill,
                         keys_of_a_call(builder.args())},
                        kNvMerge, why);
}

KernelPlan plan_nvf32(const Problem& problem, Builder builder, const DeviceFacts& device) {
  const int dim = builder.args().head_dim, value_dim = builder.args().value_head_dim;
  const int shared = static_cast<int>(device.shared_bytes);
  NvF32Tile standard = nvf32_default(dim, value_dim, builder.modified(), shared);
  // Places of rows in pages take registers.
  if (takes_page_tiles(problem)) standard.tile_keys = std::min(standard.tile_keys, 16);
  const NvF32Tile tile =
      builder.choose(kNvF32, standard, [&] { return nvf32_tiles(dim, value_dim, shared); });
  return builder.finish(kNvF32,
                        {numbers_of(tile), tile.tile_keys, nvf32_threads(tile),
                         nvf32_shared_bytes(tile, dim, value_dim) + paged_bytes(builder, tile)},
                        {problem, tile.waves * 32, nvf32_value_chunks(value_dim), false,
                         slots_of(device, 1), kUsualFill, keys_of_a_call(builder.args())},
                        kNvMerge, "f32 multiply-adds");
}

// Three products of f16 pay where the units do sixteen of them in the time of one of f32, as on the
// cards for data centers; those for graphics do two to four.
bool f16x3_pays(const AttentionArgs& args, const DeviceFacts& device) {
  if (device.arch != "sm_80" && device.arch != "sm_90" && device.arch != "sm_90a") return false;
  const int shared = static_cast<int>(device.shared_bytes);
  const NvF16x3Tile tile = nvf16x3_default(args.head_dim, args.value_head_dim, true, shared);
  return nvf16x3_shared_bytes(tile, args.head_dim, args.value_head_dim) <= shared;
}

KernelPlan plan_nvf16x3(const Problem& problem, Builder builder, const DeviceFacts& device) {
  const int dim = builder.args().head_dim, value_dim = builder.args().value_head_dim;
  const int shared = static_cast<int>(device.shared_bytes);
  const bool crowded = !builder.facts.aligned || (builder.modified() && takes_page_tiles(problem));
  NvF16x3Tile standard = nvf16x3_default(dim, value_dim, crowded, shared);
  if (left_edge_alone(builder)) standard.tile_keys = std::min(standard.tile_keys, 32);
  const NvF16x3Tile tile =
      builder.choose(kNvF16x3, standard, [&] { return nvf16x3_tiles(dim, value_dim, shared); });
  return builder.finish(
      kNvF16x3,
      {numbers_of(tile), tile.tile_keys, nvf16x3_threads(tile),
       nvf16x3_shared_bytes(tile, dim, value_dim)},
      {problem, nvf16x3_tile_rows(tile), nvf16x3_value_chunks(tile.row_tiles, value_dim), false,
       slots_of(device, 1), kUsualFill, keys_of_a_call(builder.args())},
      kNvMerge, "f32 as three products of f16");
}

// Whether the copy engine can address the tensors; sm90_takes() with the Problem's promises in
// place of pointers.
bool wgmma_takes(const Problem& problem, AttentionArgs args) {
  if (!problem.aligned || problem.seq_k == 0 || problem.features.ragged()) return false;
  if (problem.batch_invariant) return false;  // its blocks take what they find
  alignas(16) static const char aligned[16] = {};
  args.q = args.k = args.v = aligned;
  args.out = const_cast<char*>(aligned);
  return sm90_takes(args, static_cast<ElementType>(problem.dtype), problem.features.bias,
                    problem.features.mask);
}

KernelPlan plan_sm90(Builder builder, const DeviceFacts& device) {
  const AttentionArgs& args = builder.args();
  const int dim = args.head_dim, value_dim = args.value_head_dim;
  const bool ragged = builder.facts.window_left || builder.facts.window_right;
  const Sm90Tile tile = builder.choose(
      kSm90, sm90_default(dim, value_dim, ragged, builder.modified(), args.seq_k),
      [&] { return sm90_tiles(dim, value_dim, static_cast<int>(device.shared_bytes)); });
  const Config config = {numbers_of(tile), tile.tile_keys, sm90_threads(tile),
                         sm90_shared_bytes(tile, dim, value_dim)};
  GpuLaunch launch;
  launch.pieces = grid_size(sm90_pieces(tile, args));
  launch.forward = {std::min(launch.pieces, static_cast<unsigned>(device.compute_units)),
                    static_cast<unsigned>(config.threads),
                    static_cast<unsigned>(config.shared_bytes)};
  launch.tensor_maps = tile;
  launch.bf16 = builder.facts.element == ElementType::bf16;
  return builder.finish(kSm90, config, launch, "wgmma for " + device.arch);
}

}  // namespace

KernelPlan plan_nvidia(const Problem& problem, const Target& target) {
  const DeviceFacts& device = target.device;
  Builder builder = nv_builder(problem, target);
  if (problem.dtype == DType::f32) {
    if (!target.general() && f16x3_pays(builder.args(), device)) {
      return plan_nvf16x3(problem, std::move(builder), device);
    }
    return plan_nvf32(problem, std::move(builder), device);
  }
  const std::string sm80 = "mma.sync for " + device.arch;
  if (device.arch != "sm_90a" || target.general()) {
    return plan_sm80(problem, std::move(builder), target, sm80);
  }
  if (few_rows(problem, target, builder.args())) {
    return plan_sm80(problem, std::move(builder), target, sm80 + " (few queries)");
  }
  if (wgmma_takes(problem, builder.args())) return plan_sm90(std::move(builder), device);
  return plan_sm80(problem, std::move(builder), target,
                   sm80 + " (wgmma does not take these strides or features)");
}

}  // namespace hipflash::plan
