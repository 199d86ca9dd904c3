#include <spdlog/fmt/fmt.h>

#include <utility>

#include "api/check.h"
#include "api/context_impl.h"

namespace hipflash {

void Plan::Impl::run(const TensorPointers& tensors, Stream stream) const {
  if (empty) return;
  api::check_pointers(problem, tensors);
  api::check_overlap(footprints, tensors);
  if (device.platform == Platform::cpu && problem.features.ragged()) {
    api::check_sequences(problem, tensors);
  }
  AttentionArgs call = args;
  call.q = tensors.q;
  call.k = tensors.k;
  call.v = tensors.v;
  call.out = tensors.out;
  const Features& has = problem.features;
  call.lse = has.lse ? tensors.lse : nullptr;
  call.bias = has.bias ? tensors.bias : nullptr;
  call.mask = has.mask ? static_cast<const unsigned char*>(tensors.mask) : nullptr;
  call.alibi = has.alibi ? tensors.alibi : nullptr;
  call.sinks = has.sinks ? tensors.sinks : nullptr;
  const Ragged& ragged = problem.ragged;
  call.cu_seqlens_q = ragged.packed_q ? tensors.cu_seqlens_q : nullptr;
  call.cu_seqlens_k = ragged.packed_k ? tensors.cu_seqlens_k : nullptr;
  call.kv_lengths = ragged.lengths ? tensors.kv_lengths : nullptr;
  call.kv_batch_index = ragged.batch_index ? tensors.kv_batch_index : nullptr;
  call.kv_left_padding = ragged.left_padding ? tensors.kv_left_padding : nullptr;
  call.block_table = has.paged_kv ? tensors.block_table : nullptr;
  runner->run(static_cast<AttentionArgs&&>(call), stream);  // no copy: it is large
  if (verify) api::verify_result(*this, tensors, stream);
}

Plan::Plan(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

void Plan::run(const TensorPointers& tensors, Stream stream) const {
  impl_->run(tensors, stream);
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
