#include "plan/tiny_plan.h"

#include <iterator>
#include <utility>

#include "core/format.h"
#include "gpu/tiles_tiny.h"
#include "plan/kernel_facts.h"
#include "plan/mask_bounds.h"

namespace hipflash::plan {
namespace {

constexpr const char* kTiny = "gpu/attention_tiny.hip";
constexpr const char* kBoard = "gpu/attention_board_sm80.cu";

// Rows that share keys read them again, from a cache; from so many on they are worth a tile.
constexpr std::int64_t kMostSharers = 32;

int element_bytes(const Problem& p) {
  return p.dtype == DType::f32 ? 4 : 2;
}

bool is_tiny(const Problem& p) {
  return p.seq_k >= 1 && p.seq_k <= tiny::kMostKeys && p.heads_kv > 0 &&
         p.seq_q <= kMostSharers / (p.heads_q / p.heads_kv);
}

std::string refusal(const Problem& p) {
  if (p.features.ragged()) return "sequences have lengths of their own";
  if (!p.aligned) return "rows do not start on multiples of 16 bytes";
  const int step = 16 / element_bytes(p);
  if (p.head_dim % step != 0 || p.value_head_dim % step != 0) {
    return fmt::format("head dimensions are not multiples of {}", step);
  }
  const int registers =
      tiny::row_registers(static_cast<int>(p.seq_k), element_bytes(p), static_cast<int>(p.head_dim),
                          static_cast<int>(p.value_head_dim));
  if (registers > tiny::kMostRegisters) return "keys and values of a row do not fit the registers";
  if (p.batch * p.heads_q * p.seq_q > INT32_MAX) return "there are more than 2^31 rows";
  return {};
}

// The steps that both families share; `facts` and the arguments are finished, `numbers` is the
// tile.
KernelPlan finish(const char* family, const KernelFacts& facts, const AttentionArgs& args,
                  const TileNumbers& numbers, const platform::LaunchShape& shape,
                  const platform::DeviceFacts& device, std::string why) {
  KernelPlan plan;
  plan.args = args;
  plan.tile.numbers = numbers;
  plan.tile.key = tile_key(family, facts, args);
  const bool cuda = device.kind == platform::Kind::cuda;
  plan.spec.compiler = cuda ? jit::CompilerKind::nvrtc : jit::CompilerKind::hiprtc;
  plan.spec.family = family;
  plan.spec.arch = device.arch;
  plan.spec.facts = spec_members(facts, numbers);
  if (cuda) {
    plan.spec.options.assign(std::begin(tiny::kCudaOptions), std::end(tiny::kCudaOptions));
  } else {
    plan.spec.options.assign(std::begin(tiny::kHipOptions), std::end(tiny::kHipOptions));
  }
  plan.spec.label = describe(facts);
  platform::GpuLaunch launch;
  launch.forward = shape;
  plan.launch = launch;
  plan.work_items = shape.blocks;
  plan.config = to_text(numbers);
  plan.reason = std::move(why);
  return plan;
}

KernelPlan plan_handful(const Problem& problem, const platform::DeviceFacts& device) {
  const MaskBounds bounds = mask_bounds(problem);
  const KernelFacts facts = facts_of(problem, bounds);
  const AttentionArgs args = arguments_of(problem, bounds);
  const int bytes = element_bytes(problem);
  const tiny::Tile tile = tiny::default_tile(args.seq_k, bytes, args.head_dim, args.value_head_dim);
  const long long rows = static_cast<long long>(args.batch) * args.heads_q * args.seq_q;
  const long long blocks = tiny::blocks(tile, bytes, args.head_dim, args.value_head_dim, rows);
  return finish(kTiny, facts, args,
                {{"keys", tile.keys}, {"rows", tile.rows}, {"threads", tile.threads}},
                {static_cast<unsigned>(blocks), static_cast<unsigned>(tile.threads), 0}, device,
                fmt::format("{} keys and {} rows that share them: memory bounds the call, so lanes "
                            "hold whole rows",
                            args.seq_k, args.seq_q * (args.heads_q / args.heads_kv)));
}

bool is_board(const Problem& p, const platform::DeviceFacts& device) {
  const Features& has = p.features;
  if (device.kind != platform::Kind::cuda || p.dtype == DType::f32 || !p.aligned) return false;
  if (has.ragged() || has.bias || has.mask || has.sinks) return false;
  if (p.seq_k < 1 || p.seq_k > tiny::kMostBoardKeys || p.seq_q > tiny::kMostBoardQueries) {
    return false;
  }
  for (const std::int64_t dim : {p.head_dim, p.value_head_dim}) {
    if (dim > tiny::kMostBoardDim || dim % 8 != 0) return false;
  }
  // Few queries of many heads are better packed into one block per key/value head.
  if (p.seq_q < 16 && p.heads_q != p.heads_kv) return false;
  return p.batch * p.heads_q <= INT32_MAX / 16;
}

KernelPlan plan_board(const Problem& problem, const platform::DeviceFacts& device) {
  const MaskBounds bounds = mask_bounds(problem);
  KernelFacts facts = facts_of(problem, bounds);
  const AttentionArgs args = arguments_of(problem, bounds);
  // A positive scale is folded into the exponential; any other takes the path of modified scores,
  // which a softcap of 0 asks for without changing a score.
  if (!(args.scale > 0.0f)) facts.softcap = true;
  const tiny::BoardTile tile =
      tiny::board_tile(args.seq_q, args.seq_k, args.head_dim, args.value_head_dim);
  const long long blocks =
      tiny::board_blocks(tile, static_cast<long long>(args.batch) * args.heads_q, args.seq_q);
  return finish(
      kBoard, facts, args,
      {{"keys", tile.keys},
       {"tail", tile.tail},
       {"waves", tile.waves},
       {"blocks_per_sm", tile.blocks_per_sm}},
      {static_cast<unsigned>(blocks), static_cast<unsigned>(32 * tile.waves),
       static_cast<unsigned>(tiny::board_shared_bytes(tile, args.head_dim, args.value_head_dim)),
       true},
      device, fmt::format("{} keys: all of a head's fit one step of a block", args.seq_k));
}

}  // namespace

std::optional<KernelPlan> plan_tiny(const Problem& problem, const platform::DeviceFacts& device,
                                    std::string& why_not) {
  if (is_tiny(problem)) {
    const std::string trouble = refusal(problem);
    if (trouble.empty()) return plan_handful(problem, device);
    why_not = "not attention_tiny: " + trouble;
  }
  if (is_board(problem, device)) return plan_board(problem, device);
  return std::nullopt;
}

}  // namespace hipflash::plan
