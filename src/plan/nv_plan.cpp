#include "plan/nv_plan.h"

#include <algorithm>
#include <cstdlib>
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
constexpr int kLowTile = 64;          // queries
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
constexpr int kKeysOfPart = 256;

// Blocks of a tile of few rows that a multiprocessor holds. Pages need a little more memory, and
// are to have the tile of calls without.
int blocks_held(const Sm80Tile& tile, const AttentionArgs& args, const DeviceFacts& device) {
  const int bytes = sm80_shared_bytes(tile, args.head_dim, args.value_head_dim, true);
  return static_cast<int>(device.shared_bytes + kBlockOverhead) / (bytes + kBlockOverhead);
}

// The default tile of few rows: blocks of one or two warps, of which a multiprocessor holds four;
// or four in one block, which share its keys and join what they found without a launch of their
// own, where such blocks fill the device at once, or with keys that are long enough to be split.
// More blocks than these take less memory each if then all are there at once, for memory idles
// between one block and the next. What is the fastest was measured on an H200: as it is, about 64
// KB of keys and values are under way on each multiprocessor when it is busy all the time.
Sm80Tile few_rows_tile(const Problem& problem, const AttentionArgs& args,
                       const DeviceFacts& device) {
  const int warps = packed_rows(args) > 16 ? 2 : 1;
  const Sm80Tile tile = {32, warps, 1, 3, 4, false, true, 1};
  const long long blocks = row_tiles(problem, args, sm80_tile_rows(tile), true) * args.heads_kv;
  const long long units = device.compute_units;
  if (problem.batch_invariant || units <= 1) return tile;
  if (blocks > units) {
    if (warps > 1) return tile;
    const Sm80Tile two_stages = {32, 1, 1, 2, 4, false, true, 1},
                   few_keys = {16, 1, 1, 2, 4, false, true, 1};
    const auto held_at_once = [&](const Sm80Tile& t) {
      return blocks <= units * blocks_held(t, args, device);
    };
    if (held_at_once(tile)) return tile;
    if (held_at_once(two_stages)) return two_stages;
    if (problem.features.paged_kv) return tile;
    if (held_at_once(few_keys)) return few_keys;
    // Narrower rows would not leave the compiler the registers.
    const bool long_steps = std::min(args.head_dim, args.value_head_dim) > 112;
    return long_steps ? Sm80Tile{48, 1, 1, 2, 4, false, true, 1} : tile;
  }
  const bool at_once = blocks * 10 >= units * 8;
  const bool wide = std::max(args.head_dim, args.value_head_dim) > 64;
  Sm80Tile shared = {
      at_once && wide && !problem.features.paged_kv ? 16 : 32, warps, 1, 3, 1, false, true, 1};
  const int bytes = sm80_part_bytes(shared, args.head_dim, args.value_head_dim, true) + 128;
  const int parts = std::min(4, static_cast<int>(device.shared_bytes) / bytes);
  const int splits =
      at_once ? 1
              : key_splits(blocks, units, keys_of_a_call(args), shared.tile_keys * parts, kNvFill);
  if (parts < 2 || keys_of_a_call(args) < kKeysOfPart * parts * splits) return tile;
  shared.key_parts = parts;
  return shared;
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
  const bool few_long_rows = std::max(dim, value_dim) > 128 && rows < 64LL * device.compute_units;
  // So do the places of rows in pages, and a window with a left edge alone. Batch-invariant calls
  // have one tile for all their forms, which divides the keys of their parts.
  const bool modified = builder.modified() || !builder.facts.aligned || takes_page_tiles(problem) ||
                        few_long_rows || left_edge_alone(builder) || problem.batch_invariant;
  Sm80Tile standard = sm80_default(dim, value_dim, modified, builder.facts.window_left,
                                   keys_of_a_call(args), shared);
  // Of short packed sequences high tiles would waste many rows.
  const int widest = std::max(dim, value_dim);
  if (problem.ragged.packed_q && !modified && widest > 64 && widest <= 128 &&
      args.seq_q <= kShortSequence) {
    standard.tile_keys = std::min(standard.tile_keys, 48);
    standard.row_tiles = 1;
    standard.blocks_per_sm = 3;
  }
  // Many queries over pages are worth high tiles without what places leave no registers for: Q
  // in registers, or above 64 columns a second stage and sinks.
  if (problem.features.paged_kv && !problem.batch_invariant && !builder.modified() &&
      builder.facts.aligned && args.seq_q >= kHighPagedTiles && shared > kSharedOfHighTiles &&
      (widest <= 64 || (std::min(dim, value_dim) > 80 && widest <= 128 &&
                        !builder.facts.window_left && !builder.facts.sinks))) {
    standard = {64, 4, 2, widest <= 64 ? 2 : 1, 2, false, false, 1};
  }
  // Finding their work takes registers as well.
  if (problem.ragged.packed_q && widest > 192) {
    const int width = nv_round_up(widest, 16), most = width > 240 ? 48 : width % 32 == 0 ? 32 : 16;
    standard.tile_keys = std::min(standard.tile_keys, most);
  }
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
  const char* const why =
      problem.strict_f32 ? "f32 multiply-adds (strict_f32)" : "f32 multiply-adds";
  return builder.finish(kNvF32,
                        {numbers_of(tile), tile.tile_keys, nvf32_threads(tile),
                         nvf32_shared_bytes(tile, dim, value_dim) + paged_bytes(builder, tile)},
                        {problem, tile.waves * 32, nvf32_value_chunks(value_dim), false,
                         slots_of(device, 1), kUsualFill, keys_of_a_call(builder.args())},
                        kNvMerge, why);
}

// Three products of f16 pay where the units do sixteen of them in the time of one of f32, as on the
// cards for data centers; those for graphics do two to four.
bool f16x3_pays(const AttentionArgs& args, const DeviceFacts& device) {
  if (device.arch != "sm_80" && device.arch != "sm_90" && device.arch != "sm_90a") return false;
  const int shared = static_cast<int>(device.shared_bytes);
  const NvF16x3Tile tile = nvf16x3_default(args.head_dim, args.value_head_dim, true, false, shared);
  return nvf16x3_shared_bytes(tile, args.head_dim, args.value_head_dim) <= shared;
}

// Tiles of 256 rows pay where they fill the device and are mostly full: in short sequences where
// rows see different numbers of keys they are not. Of narrow ones two share a multiprocessor, which
// leaves no registers for more than a causal mask.
bool high_f16x3_tiles(const Problem& problem, const Builder& builder, const DeviceFacts& device) {
  const AttentionArgs& args = builder.args();
  const bool uneven = builder.facts.window_left || builder.facts.window_right;
  const long long rows = static_cast<long long>(args.seq_q) * args.batch * args.heads_q;
  if (problem.features.ragged() || args.seq_q < kShortSequence) return false;
  if (std::max(args.head_dim, args.value_head_dim) <= 32) {
    return rows >= 512LL * device.compute_units && !builder.modified() && builder.facts.aligned &&
           !builder.facts.window_left;
  }
  return rows >= 256LL * device.compute_units && (!uneven || args.seq_k > 768);
}

KernelPlan plan_nvf16x3(const Problem& problem, Builder builder, const DeviceFacts& device) {
  const int dim = builder.args().head_dim, value_dim = builder.args().value_head_dim;
  const int shared = static_cast<int>(device.shared_bytes);
  const bool crowded = !builder.facts.aligned || (builder.modified() && takes_page_tiles(problem));
  NvF16x3Tile standard =
      nvf16x3_default(dim, value_dim, crowded, high_f16x3_tiles(problem, builder, device), shared);
  const bool odd_rows = dim % 8 != 0 || value_dim % 8 != 0;
  if (left_edge_alone(builder) || (builder.facts.window_left && (builder.modified() || odd_rows))) {
    standard.tile_keys = std::min(standard.tile_keys, 32);
  }
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

// How long packed sequences are that count: as the longest, but at most twice their mean.
int long_packed(const Problem& problem) {
  const long long mean = problem.ragged.total_q / std::max<long long>(problem.batch, 1);
  return static_cast<int>(std::min<long long>(problem.seq_q, 2 * mean + 1));
}

// Whether wgmma takes sequences of different lengths: packed ones, whose ends it finds and blanks;
// but not what lies before a window, no scores that take the registers which that needs, and none
// so short that most rows of a block would be idle.
bool wgmma_takes_sequences(const Problem& problem, const Builder& builder) {
  const Ragged& ragged = problem.ragged;
  const int widest = std::max(builder.args().head_dim, builder.args().value_head_dim);
  return ragged.packed_q && ragged.packed_k && !ragged.lengths && !ragged.batch_index &&
         !ragged.left_padding && !problem.features.paged_kv && !builder.facts.window_left &&
         !(builder.modified() && widest > 128) && long_packed(problem) > kLowTile;
}

// Whether wgmma serves a call: nothing batch-invariant, no sequences but those above, and tensors
// that the copy engine can address (sm90_takes() with the Problem's promises in place of pointers).
bool wgmma_takes(const Problem& problem, const Builder& builder) {
  if (!problem.aligned || problem.seq_k == 0) return false;
  if (problem.batch_invariant) return false;  // its blocks take what they find
  AttentionArgs args = builder.args();
  if (problem.features.ragged()) {
    if (!wgmma_takes_sequences(problem, builder)) return false;
    args.batch = 1;  // the copy engine has them as one
    args.seq_q = args.total_q;
    args.seq_k = args.total_k;
  }
  alignas(16) static const char aligned[16] = {};
  args.q = args.k = args.v = aligned;
  args.out = const_cast<char*>(aligned);
  return sm90_takes(args, static_cast<ElementType>(problem.dtype), problem.features.bias,
                    problem.features.mask);
}

KernelPlan plan_sm90(const Problem& problem, Builder builder, const DeviceFacts& device) {
  const AttentionArgs& args = builder.args();
  const int dim = args.head_dim, value_dim = args.value_head_dim;
  const bool uneven = builder.facts.window_left || builder.facts.window_right;
  const bool packed = problem.ragged.packed_q;
  Sm90Tile standard =
      packed ? sm90_packed_default(dim, value_dim, uneven, builder.modified(), long_packed(problem))
             : sm90_default(dim, value_dim, uneven, builder.modified(), args.seq_k);
  if (left_edge_alone(builder) && standard.tile_keys == 80) standard.tile_keys = 64;
  const Sm90Tile tile = builder.choose(kSm90, standard, [&] {
    return sm90_tiles(dim, value_dim, static_cast<int>(device.shared_bytes), packed);
  });
  const Config config = {numbers_of(tile), tile.tile_keys, sm90_threads(tile),
                         sm90_shared_bytes(tile, dim, value_dim)};
  GpuLaunch launch;
  // (of packed sequences, some without rows)
  launch.pieces = grid_size(row_tiles(problem, args, sm90_tile_rows(tile), false) * args.heads_q);
  launch.forward = {std::min(launch.pieces, static_cast<unsigned>(device.compute_units)),
                    static_cast<unsigned>(config.threads),
                    static_cast<unsigned>(config.shared_bytes)};
  launch.tensor_maps = tile;
  launch.bf16 = builder.facts.element == ElementType::bf16;
  return builder.finish(kSm90, config, launch, "wgmma for " + device.arch);
}

}  // namespace

// CUDA C++ Programming Guide, technical specifications per compute capability.
std::size_t nv_shared_bytes(const std::string& arch) {
  constexpr std::size_t kKilobyte = 1024;
  const int number = arch.rfind("sm_", 0) == 0 ? std::atoi(arch.c_str() + 3) : 0;
  if (number == 80 || number == 87) return 163 * kKilobyte;
  if (number >= 90 && number < 120) return 227 * kKilobyte;
  return 99 * kKilobyte;
}

KernelPlan plan_nvidia(const Problem& problem, const Target& target) {
  const DeviceFacts& device = target.device;
  Builder builder = nv_builder(problem, target);
  if (problem.dtype == DType::f32) {
    if (!target.general() && !problem.strict_f32 && f16x3_pays(builder.args(), device)) {
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
  if (wgmma_takes(problem, builder)) return plan_sm90(problem, std::move(builder), device);
  return plan_sm80(problem, std::move(builder), target,
                   sm80 + " (wgmma does not take these strides, features or sequences)");
}

}  // namespace hipflash::plan
