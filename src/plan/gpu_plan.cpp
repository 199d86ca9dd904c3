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
#include "plan/row_tiles.h"
#include "plan/tile_lists.h"
#include "plan/tiny_plan.h"

namespace hipflash::plan {
namespace {

using platform::DeviceFacts;
using platform::GpuLaunch;

// A text with its compiler.
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

// What is planned for.
struct Target {
  const DeviceFacts& device;
  const TileSource* tuned;
  Kernel kernel;

  bool general() const { return kernel == Kernel::general; }
};

// What a family says of one tile config.
struct Config {
  TileNumbers numbers;
  int tile_keys;
  int threads;
  int shared_bytes;  // dynamic
  int thread_rows = 1;
};

// Rows to tiles, tiles to blocks, keys to splits: what families with one block per tile share.
struct TileGrid {
  const Problem& problem;
  int tile_rows, slices;  // blocks that share a tile: one for each slice of its value dims
  bool pack_heads;
  long long slots;  // blocks that the device holds at a time; 0: never split
  double fill = kUsualFill;
  int keys = 0;  // that splits share; 0: all

  long long blocks(const AttentionArgs& a) const {
    return row_tiles(problem, a, tile_rows, pack_heads) * (pack_heads ? a.heads_kv : a.heads_q) *
           slices * std::max(a.splits, 1);
  }

  void split_keys(AttentionArgs& a, int tile_keys) const {
    if (problem.batch_invariant) {
      const InvariantSplit split = invariant_split(problem, a);
      a.splits = split.splits;
      a.keys_per_split = split.keys_per_split;
    } else {
      a.splits = key_splits(blocks(a), slots, keys > 0 ? keys : a.seq_k, tile_keys, fill);
    }
  }
};

// attention_merge of a family: how many blocks some arguments take, and of how many threads.
struct Merge {
  long long (*blocks)(const AttentionArgs& args);
  unsigned threads;
  bool begins_early = false;  // see LaunchShape
};

// The steps that all families share, from the facts of a Problem to the finished plan.
class Builder {
 public:
  Builder(const Problem& problem, const Target& target)
      : bounds_(mask_bounds(problem)),
        device_(target.device),
        // Whatever the batch, or the problem, one kernel.
        tuned_(problem.batch_invariant || target.general() ? nullptr : target.tuned),
        general_(target.general()),
        facts(general_ ? general_facts(problem) : facts_of(problem, bounds_)) {
    plan_.args = arguments_of(problem, bounds_);
  }

  const AttentionArgs& args() const { return plan_.args; }
  int element_bytes() const { return facts.element == ElementType::f32 ? 4 : 2; }
  // Softcap, ALiBi, bias and masks take registers of a kernel.
  bool modified() const { return facts.softcap || facts.alibi || facts.bias || facts.mask; }

  // The tuned config if one of the candidates was tuned, else `standard`. Asked when all facts are
  // known.
  template <class Tile, class Candidates>
  Tile choose(const Family& family, const Tile& standard, Candidates&& candidates,
              const std::string& variant = {}) {
    return choose_tile(tuned_, tile_key(family.file, facts, args(), variant), standard,
                       std::forward<Candidates>(candidates), plan_.tile);
  }

  // For families with one block per tile, which may split their keys.
  KernelPlan finish(const Family& family, const Config& config, const TileGrid& grid,
                    const Merge& merge, const std::string& why) {
    AttentionArgs& args = plan_.args;
    grid.split_keys(args, config.tile_keys);
    GpuLaunch launch;
    launch.forward = {grid_size(grid.blocks(args)), static_cast<unsigned>(config.threads),
                      static_cast<unsigned>(config.shared_bytes), false,
                      static_cast<unsigned>(config.thread_rows)};
    if (args.splits > 1) {
      launch.merge = {grid_size(merge.blocks(args)), merge.threads, 0, merge.begins_early};
    }
    launch.partial_bytes = platform::partial_bytes(args);
    return finish(family, config, launch, why);
  }

  KernelPlan finish(const Family& family, const Config& config, const GpuLaunch& launch,
                    const std::string& why) {
    facts.split_keys =
        facts.split_keys || general_ || plan_.args.splits > 1 || plan_.args.keys_per_split > 0;
    plan_.spec.compiler = family.compiler;
    plan_.spec.family = family.file;
    plan_.spec.arch = device_.arch;
    plan_.spec.facts = spec_members(facts, config.numbers);
    plan_.spec.options = family.options;
    plan_.spec.label = describe(facts);
    plan_.config =
        fmt::format("{} compute_units={}", to_text(config.numbers), device_.compute_units);
    plan_.reason = general_ ? "general kernel of " + why
                            : reason_of(plan_.tile, (plan_.tile.is_default ? "built-in default of "
                                                                           : "tuned config of ") +
                                                        why);
    plan_.work_items = launch.pieces ? launch.pieces : launch.forward.blocks;
    plan_.workspace_bytes = launch.partial_bytes;
    plan_.launch = launch;
    return std::move(plan_);
  }

 private:
  MaskBounds bounds_;
  const DeviceFacts& device_;
  const TileSource* tuned_;
  const bool general_;
  KernelPlan plan_;

 public:
  KernelFacts facts;
};

template <std::size_t N>
std::vector<std::string> options_of(const char* const (&options)[N]) {
  return {std::begin(options), std::end(options)};
}

bool rows_within(const Problem& p, bool (*fits)(long long)) {
  for (const Strides* s : {&p.q, &p.k, &p.v, &p.out}) {
    if (!fits(s->seq)) return false;
  }
  return true;
}

long long amd_merge_blocks(const AttentionArgs& a) {
  const long long elements =
      static_cast<long long>(a.partial_batch) * a.heads_q * a.partial_seq * a.value_head_dim;
  return (elements + rdna::kMergeThreads - 1) / rdna::kMergeThreads;
}

KernelPlan finish_amd(Builder& builder, const Family& family, Config config, const TileGrid& grid,
                      const std::string& why) {
  config.numbers.emplace_back("pack_heads", grid.pack_heads);
  return builder.finish(family, config, grid, {amd_merge_blocks, rdna::kMergeThreads},
                        grid.pack_heads ? why + " (heads of a group packed)" : why);
}

// Addresses of rows in pages take registers of a kernel. A batch-invariant call has the same tile
// without pages, so that both give the same bits.
bool takes_page_tiles(const Problem& problem) {
  return problem.features.paged_kv || (problem.batch_invariant && problem.features.ragged());
}

// Configs for packed heads are tuned apart from others.
const char* variant_of(bool pack_heads) {
  return pack_heads ? "packed" : "";
}

// Blocks that a device holds if a unit holds so many; one unit stands for an unknown device.
long long slots_of(const DeviceFacts& device, int blocks_of_unit) {
  return device.compute_units > 1 ? static_cast<long long>(device.compute_units) * blocks_of_unit
                                  : 0;
}

const Family kCdna{"gpu/attention_forward.hip", jit::CompilerKind::hiprtc,
                   options_of(cdna::kOptions)};

KernelPlan plan_cdna(const Problem& problem, const Target& target, cdna::Card card) {
  const DeviceFacts& device = target.device;
  Builder builder(problem, target);
  builder.facts.aligned = problem.aligned && rows_within(problem, cdna::stride_allows_vectors);
  const int dim = builder.args().head_dim, value_dim = builder.args().value_head_dim;
  const int bytes = builder.element_bytes();
  const bool plain = builder.facts.aligned && !builder.modified() && !takes_page_tiles(problem);
  cdna::Tile tile = cdna::default_tile(card, bytes, dim, value_dim, plain, builder.facts.ragged);
  const bool pack_heads = !target.general() && packs_heads(problem, cdna::queries(tile));
  const long long rows = pack_heads ? packed_rows(builder.args()) : queries_of_choice(problem);
  const bool few = !target.general() && rows > 0 && rows <= cdna::kFewRows &&
                   cdna::has_few_rows_tile(bytes, dim, value_dim);
  if (few) {
    const bool modified = builder.modified() || !builder.facts.aligned;
    tile = cdna::few_rows_tile(card, bytes, dim, value_dim, modified);
    if (!pack_heads && !problem.features.ragged() && problem.seq_k > tile.tile_keys &&
        problem.seq_k <= cdna::kBoardKeys &&
        cdna::has_board_tile(bytes, dim, value_dim, modified)) {
      tile = cdna::board_tile(card, dim, value_dim);
    }
  }
  tile = builder.choose(
      kCdna, tile, [&] { return cdna_tiles(card, bytes, dim, value_dim); }, variant_of(pack_heads));
  Config config = {numbers_of(tile), tile.tile_keys, cdna::threads(tile), 0};
  config.numbers.emplace_back("dies", cdna::dies_of(card));
  config.numbers.emplace_back("largest_head_dim", 512);
  const int blocks_of_unit = few ? std::max(1, 4 * tile.waves_per_simd / tile.waves) : 1;
  return finish_amd(builder, kCdna, config,
                    {problem, cdna::queries(tile), 1, pack_heads, slots_of(device, blocks_of_unit)},
                    "matrix cores for " + device.arch);
}

const Family kWmma{"gpu/attention_forward_rdna.hip", jit::CompilerKind::hiprtc,
                   options_of(rdna::kOptions)};
const Family kDot{"gpu/attention_forward_dot.hip", jit::CompilerKind::hiprtc,
                  options_of(rdna::kOptions)};

// Small blocks of packed heads that a unit of an RDNA card holds at a time.
constexpr int kPackedBlocksOfUnit = 4;

KernelPlan plan_wmma(const Problem& problem, const Target& target, int generation) {
  const DeviceFacts& device = target.device;
  Builder builder(problem, target);
  builder.facts.aligned = problem.aligned && rows_within(problem, [](long long stride) {
                            return stride >= 0 && stride <= rdna::kLargestAlignedStride;
                          });
  const AttentionArgs& args = builder.args();
  const bool modified = builder.modified() || !builder.facts.aligned;
  const auto tile_for = [&](long long rows) {
    const int most = rows == 0 ? INT32_MAX / 4 : static_cast<int>(std::min(rows, 1LL << 28));
    return rdna::wmma_default(generation, args.head_dim, args.value_head_dim, most, modified,
                              takes_page_tiles(problem));
  };
  rdna::WmmaTile tile = tile_for(target.general() ? 0 : queries_of_choice(problem));
  const bool pack_heads = !target.general() && packs_heads(problem, rdna::wmma_queries(tile));
  if (pack_heads) tile = tile_for(packed_rows(args));
  tile = builder.choose(
      kWmma, tile, [&] { return wmma_tiles(generation, args.head_dim, args.value_head_dim); },
      variant_of(pack_heads));
  return finish_amd(
      builder, kWmma, {numbers_of(tile), tile.tile_keys, rdna::wmma_threads(tile), 0},
      {problem, rdna::wmma_queries(tile), rdna::wmma_slices(tile, args.value_head_dim), pack_heads,
       slots_of(device, pack_heads ? kPackedBlocksOfUnit : 1)},
      "WMMA for " + device.arch);
}

KernelPlan plan_dot(const Problem& problem, const Target& target) {
  const DeviceFacts& device = target.device;
  Builder builder(problem, target);
  const int dim = builder.args().head_dim, value_dim = builder.args().value_head_dim;
  const int bytes = builder.element_bytes();
  rdna::DotTile tile = rdna::dot_default(bytes, dim, value_dim);
  const bool pack_heads = !target.general() && packs_heads(problem, rdna::dot_queries(tile));
  if (pack_heads && packed_rows(builder.args()) <= 16) tile.threads = 64;
  tile = builder.choose(
      kDot, tile, [&] { return dot_tiles(bytes, dim, value_dim); }, variant_of(pack_heads));
  return finish_amd(builder, kDot, {numbers_of(tile), tile.tile_keys, tile.threads, 0},
                    {problem, rdna::dot_queries(tile), 1, pack_heads,
                     slots_of(device, pack_heads ? kPackedBlocksOfUnit : 1)},
                    "vector units for " + device.arch);
}

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
  // So do the places of rows in pages.
  const bool modified =
      builder.modified() || !builder.facts.aligned || takes_page_tiles(problem) || few_long_rows;
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
  const NvF16x3Tile tile =
      builder.choose(kNvF16x3, nvf16x3_default(dim, value_dim, crowded, shared),
                     [&] { return nvf16x3_tiles(dim, value_dim, shared); });
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

KernelPlan plan_family(const Problem& problem, const Target& target) {
  const DeviceFacts& device = target.device;
  if (device.kind == platform::Kind::cuda) return plan_nvidia(problem, target);
  const cdna::Card card = cdna::card_of(device.arch.c_str());
  if (card != cdna::Card::none) return plan_cdna(problem, target, card);
  const int generation = rdna::wmma_generation(device.arch.c_str());
  if (generation == 0 || problem.dtype == DType::f32) return plan_dot(problem, target);
  return plan_wmma(problem, target, generation);
}

}  // namespace

bool general_may_serve(const Problem& problem) noexcept {
  return !problem.batch_invariant;
}

KernelPlan plan_gpu(const Problem& problem, const DeviceFacts& device, const TileSource* tuned,
                    Kernel kernel) {
  const Target target{device, tuned, kernel};
  if (kernel == Kernel::general) return plan_family(problem, target);
  std::string not_tiny;
  if (auto tiny = plan_tiny(problem, device, not_tiny)) return *std::move(tiny);
  KernelPlan plan = plan_family(problem, target);
  if (!not_tiny.empty()) plan.reason += "; " + not_tiny;
  return plan;
}

DeviceFacts facts_of_architecture(const std::string& arch) {
  DeviceFacts facts;
  facts.arch = arch;
  facts.name = arch;
  facts.compute_units = 1;  // never splits keys: a kernel made ahead serves the usual case
  if (arch.rfind("gfx", 0) == 0) {
    facts.kind = platform::Kind::hip;
    facts.shared_bytes = std::size_t{64} * 1024;
    return facts;
  }
  if (arch.rfind("sm_", 0) == 0) {
    facts.kind = platform::Kind::cuda;
    const bool small = arch == "sm_86" || arch == "sm_89" || arch == "sm_120";
    facts.shared_bytes = arch == "sm_90a" || arch == "sm_90" || arch == "sm_100" ? 227U * 1024
                         : small                                                 ? 99U * 1024
                                                                                 : 163U * 1024;
    return facts;
  }
  fail(ErrorCode::InvalidArgument,
       "arch = \"{}\" must be a CPU architecture of `hipflash info`, gfx... or sm_...", arch);
}

}  // namespace hipflash::plan
