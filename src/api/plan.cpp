
#include <utility>

#include "api/check.h"
#include "api/context_impl.h"
#include "core/fail.h"
#include "core/format.h"
#include "verify/reference.h"

namespace hipflash {
namespace {

// HIPFLASH_VERIFY: at most this many queries of each head are held against the reference.
constexpr std::int64_t kVerifiedQueries = 256;

void verify_result(const Plan::Impl& plan, const TensorPointers& tensors) {
  verify::ReferenceOptions options;
  options.queries = verify::sample_queries(plan.problem.seq_q, kVerifiedQueries);
  const verify::Verdict verdict = verify::check(plan.problem, tensors, options);
  if (verdict.ok()) return;
  fail(ErrorCode::Internal, "HIPFLASH_VERIFY: kernel {} ({}; key {}) gave a wrong result: {}",
       plan.explanation.family, plan.explanation.reason, plan.explanation.key, verdict.text());
}

}  // namespace

void Plan::Impl::run(const TensorPointers& tensors) const {
  if (empty) return;
  api::check_pointers(problem, tensors);
  AttentionArgs args = cpu.args;
  args.q = tensors.q;
  args.k = tensors.k;
  args.v = tensors.v;
  args.out = tensors.out;
  const Features& has = problem.features;
  args.lse = has.lse ? tensors.lse : nullptr;
  args.bias = has.bias ? tensors.bias : nullptr;
  args.mask = has.mask ? static_cast<const unsigned char*>(tensors.mask) : nullptr;
  args.alibi = has.alibi ? tensors.alibi : nullptr;
  device->run(*module, args, cpu.work, cpu.partial_bytes);
  if (verify) verify_result(*this, tensors);
}

Plan::Plan(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

void Plan::run(const TensorPointers& tensors, Stream) const {
  impl_->run(tensors);
}
const Problem& Plan::problem() const noexcept {
  return impl_->problem;
}
Tier Plan::tier() const noexcept {
  return impl_->tier;
}
double Plan::compile_ms() const noexcept {
  return impl_->compile_ms;
}
double Plan::load_ms() const noexcept {
  return impl_->load_ms;
}
const Explanation& Plan::explanation() const noexcept {
  return impl_->explanation;
}

std::string Explanation::text() const {
  return fmt::format(
      "device     {} ({})\n"
      "family     {}\n"
      "config     {}\n"
      "reason     {}\n"
      "key        {}\n"
      "tier       {}\n"
      "work items {}\n"
      "key splits {}\n"
      "workspace  {} bytes\n",
      device, arch, family, config, reason, key, tier, work_items, splits, workspace_bytes);
}

}  // namespace hipflash
