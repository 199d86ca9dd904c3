#include "plan/amd_plan.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gpu/tiles_cdna.h"
#include "gpu/tiles_rdna.h"
#include "plan/row_tiles.h"
#include "plan/tile_lists.h"

namespace hipflash::plan {
namespace {

using platform::DeviceFacts;

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

KernelPlan finish_amd(Builder& builder, const Family& family, Config config, const TileGrid& grid,
                      const Merge& merge, const std::string& why) {
  config.numbers.emplace_back("pack_heads", grid.pack_heads);
  return builder.finish(family, config, grid, merge,
                        grid.pack_heads ? why + " (heads of a group packed)" : why);
}

// Configs for packed heads are tuned apart from others.
const char* variant_of(bool pack_heads) {
  return pack_heads ? "packed" : "";
}

const Merge kCdnaMerge{[](const AttentionArgs& a) {
                         return cdna::merge_blocks(a.partial_batch, a.heads_q, a.partial_seq,
                                                   a.value_head_dim);
                       },
                       cdna::kMergeThreads};

const Family kCdna{"gpu/attention_forward_cdna.hip", jit::CompilerKind::hiprtc,
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
                    kCdnaMerge, "matrix cores for " + device.arch);
}

const Merge kRdnaMerge{[](const AttentionArgs& a) {
                         return rdna::merge_blocks(a.partial_batch, a.heads_q, a.partial_seq,
                                                   a.value_head_dim);
                       },
                       rdna::kMergeThreads};

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
      kRdnaMerge, "WMMA for " + device.arch);
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
                    kRdnaMerge, "vector units for " + device.arch);
}

}  // namespace

KernelPlan plan_amd(const Problem& problem, const Target& target) {
  const DeviceFacts& device = target.device;
  const cdna::Card card = cdna::card_of(device.arch.c_str());
  if (card != cdna::Card::none) return plan_cdna(problem, target, card);
  const int generation = rdna::wmma_generation(device.arch.c_str());
  if (generation == 0 || problem.dtype == DType::f32) return plan_dot(problem, target);
  return plan_wmma(problem, target, generation);
}

}  // namespace hipflash::plan
