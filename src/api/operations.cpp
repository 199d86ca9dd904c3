#include "api/operations.h"
#include "core/format.h"

#include <utility>

#include "common/faults.h"

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
                                                                const MakePlan& make) {
  using Operations = decltype(operations_);
  return operations_.get(key, [&]() -> Operations::Sized {
    const plan::OperationPlan plan = make(device_->facts());
    const jit::LoadedModule loaded = load_operation(plan.spec);
    auto made = std::make_shared<LoadedOperation>();
    made->operation = device_->prepare_operation(loaded.module, plan.launch);
    made->explanation = explanation_of(plan, id_);
    made->explanation.key = loaded.key;
    made->explanation.tier = to_string(loaded.tier);
    device_->fault_word();  // made here, since a call may be inside of a graph capture
    return {std::move(made), 1};
  });
}

jit::LoadedModule Context::Impl::load_operation(const jit::Spec& spec) {
  try {
    return modules_.get(*device_, spec);
  } catch (const jit::MissingCode& missing) {
    throw Error(
        missing.code(),
        fmt::format("{}. `hipflash pack create -o more.hfpack --from-cache --arch {}` where "
                    "this was run with a compiler makes a pack of it",
                    missing.what(), spec.arch.substr(0, spec.arch.find(':'))),
        missing.log());
  }
}

Explanation Context::Impl::explain_operation(const MakePlan& make) {
  const plan::OperationPlan plan = make(device_->facts());
  Explanation why = explanation_of(plan, id_);
  why.key = provider.key(plan.spec);
  why.tier = tier_text(plan.spec);
  return why;
}

std::string Context::take_fault() {
  return sentence_of(impl_->device().take_fault());
}

}  // namespace hipflash
