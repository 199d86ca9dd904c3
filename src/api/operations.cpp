#include "api/operations.h"

#include <utility>

#include "api/host_copies.h"
#include "api/operation_kernels.h"
#include "api/recorder.h"
#include "common/faults.h"
#include "core/fail.h"

namespace hipflash {
namespace {

Explanation explanation_of(const plan::OperationPlan& plan, DeviceId device) {
  Explanation why;
  why.device = to_string(device);
  why.arch = plan.spec.arch;
  why.family = plan.spec.family;
  why.config = plan.config;
  why.reason = plan.reason + "; " + plan.spec.label;
  why.work_items = plan.launch.items;
  return why;
}

const char* sentence_of(int fault) noexcept {
  switch (fault) {
    case kNoFault:
      return "";
    case kOffsetsFault:
      return "offsets of packed sequences decrease or reach beyond the tensor";
    case kLengthFault:
      return "a length is negative, or beyond the cache's capacity or the table's pages";
    case kSlotFault:
      return "a batch index is outside of the cache";
    case kPageFault:
      return "an entry of a block table is not a page";
    case kPositionFault:
      return "a position is beyond the rotary tables";
  }
  return "an unknown fault";
}

}  // namespace

std::shared_ptr<const LoadedOperation> Context::Impl::operation(const std::string& key,
                                                                const MakePlan& make,
                                                                Stream stream) {
  if (auto known = operations_.find(key)) return known;
  if (device_->capturing(stream)) {
    fail(ErrorCode::InvalidArgument,
         "stream = {} records a graph, and this operation has no kernel yet: call it once outside "
         "of the recording, with tensors like these",
         fmt::ptr(stream.handle));
  }
  using Operations = decltype(operations_);
  return operations_.get(key, [&]() -> Operations::Sized {
    const platform::DeviceFacts& facts = device_->facts();
    const PlannedOperation planned = make(facts);
    api::record({facts.arch, facts.compute_units, {}, planned.kernel});
    const jit::LoadedModule loaded = load_operation(planned);
    auto made = std::make_shared<LoadedOperation>();
    made->operation = device_->prepare_operation(loaded.module, planned.plan.launch);
    made->explanation = explanation_of(planned.plan, id_);
    made->explanation.key = loaded.key;
    made->explanation.tier = to_string(loaded.tier);
    return {std::move(made), 1};
  });
}

jit::LoadedModule Context::Impl::load_operation(const PlannedOperation& planned) {
  const jit::Spec& spec = planned.plan.spec;
  try {
    return modules_.get(*device_, spec);
  } catch (const jit::MissingCode& missing) {
    throw Error(missing.code(),
                fmt::format("{}. `{}` makes a pack of it", missing.what(),
                            api::pack_command(planned.kernel, spec.arch)),
                missing.log());
  }
}

Explanation Context::Impl::explain_operation(const MakePlan& make) {
  const plan::OperationPlan plan = make(device_->facts()).plan;
  Explanation why = explanation_of(plan, id_);
  why.key = provider.key(plan.spec);
  why.tier = tier_text(plan.spec);
  return why;
}

bool Context::Impl::verifies(Stream stream) const {
  return verify_ && api::verifiable(id_, stream);
}

std::string Context::take_fault() {
  return sentence_of(impl_->device().take_fault());
}

}  // namespace hipflash
