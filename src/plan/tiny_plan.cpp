#include "plan/tiny_plan.h"

#include <iterator>

#include "core/format.h"
#include "gpu/tiles_tiny.h"
#include "plan/kernel_facts.h"
#include "plan/mask_bounds.h"

namespace hipflash::plan {
namespace {

constexpr const char* kFamily = "gpu/attention_tiny.hip";

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

}  // namespace

std::optional<KernelPlan> plan_tiny(const Problem& problem, const platform::DeviceFacts& device,
                                    std::string& why_not) {
  if (!is_tiny(problem)) return std::nullopt;
  if (const std::string trouble = refusal(problem); !trouble.empty()) {
    why_not = "not attention_tiny: " + trouble;
    return std::nullopt;
  }
  const MaskBounds bounds = mask_bounds(problem);
  const KernelFacts facts = facts_of(problem, bounds);
  KernelPlan plan;
  plan.args = arguments_of(problem, bounds);
  const AttentionArgs& args = plan.args;
  const int bytes = element_bytes(problem);
  const tiny::Tile tile = tiny::default_tile(args.seq_k, bytes, args.head_dim, args.value_head_dim);
  plan.tile.numbers = {{"keys", tile.keys}, {"rows", tile.rows}, {"threads", tile.threads}};
  plan.tile.key = tile_key(kFamily, facts, args);

  const bool cuda = device.kind == platform::Kind::cuda;
  plan.spec.compiler = cuda ? jit::CompilerKind::nvrtc : jit::CompilerKind::hiprtc;
  plan.spec.family = kFamily;
  plan.spec.arch = device.arch;
  plan.spec.facts = spec_members(facts, plan.tile.numbers);
  if (cuda) {
    plan.spec.options.assign(std::begin(tiny::kCudaOptions), std::end(tiny::kCudaOptions));
  } else {
    plan.spec.options.assign(std::begin(tiny::kHipOptions), std::end(tiny::kHipOptions));
  }
  plan.spec.label = describe(facts);

  platform::GpuLaunch launch;
  const long long rows = static_cast<long long>(args.batch) * args.heads_q * args.seq_q;
  launch.forward = {
      static_cast<unsigned>(tiny::blocks(tile, bytes, args.head_dim, args.value_head_dim, rows)),
      static_cast<unsigned>(tile.threads), 0};
  plan.launch = launch;
  plan.work_items = launch.forward.blocks;
  plan.config = to_text(plan.tile.numbers);
  plan.reason = fmt::format(
      "{} keys and {} rows that share them: memory bounds the call, so lanes "
      "hold whole rows",
      args.seq_k, args.seq_q * (args.heads_q / args.heads_kv));
  return plan;
}

}  // namespace hipflash::plan
