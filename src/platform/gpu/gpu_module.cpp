#include "platform/gpu/gpu_module.h"

#include <string>
#include <utility>

#include "core/fail.h"
#include "platform/gpu/recorded.h"

namespace hipflash::platform {

GpuModule::GpuModule(GpuDriver& driver, int ordinal, const jit::CodeObject& code)
    : driver_(driver),
      ordinal_(ordinal),
      key_(code.key),
      module_(driver.load_module(ordinal, code.bytes)) {}

GpuModule::~GpuModule() {
  if (launched_) {
    try {
      driver_.synchronize(ordinal_);
    } catch (...) {
      return;  // what was launched may still run, so it stays loaded; or the device is gone
    }
  }
  driver_.unload_module(ordinal_, module_);
}

void GpuModule::launch(void* entry, const LaunchShape& shape, void** parameters,
                       Stream stream) const {
  launched_.store(true, std::memory_order_relaxed);
  driver_.launch(ordinal_, entry, shape, parameters, stream);
}

void* GpuModule::entry(const char* name, unsigned shared_bytes) const {
  void* const function = driver_.function(module_, name);
  if (shared_bytes > 48u * 1024u) driver_.allow_shared(function, shared_bytes);
  return function;
}

void check_owners(GpuDriver& driver, const DeviceFacts& facts,
                  std::span<const NamedPointer> pointers) {
  for (const auto& [name, pointer] : pointers) {
    if (!pointer) continue;
    const int owner = driver.device_of(pointer);
    if (owner == facts.ordinal || (owner < 0 && facts.reads_host_memory)) continue;
    const std::string where = owner < 0
                                  ? "not memory of a device"
                                  : fmt::format("memory of {}:{}", to_string(facts.kind), owner);
    fail(ErrorCode::InvalidArgument, "{} = {} is {}, but the call is for {}:{}", name,
         fmt::ptr(pointer), where, to_string(facts.kind), facts.ordinal);
  }
}

FaultWord::FaultWord(GpuDriver& driver, int ordinal)
    : driver_(driver),
      ordinal_(ordinal),
      word_(static_cast<int*>(driver.allocate(ordinal, sizeof(int)))) {
  driver_.zero(ordinal_, word_, sizeof(int));
  driver_.synchronize(ordinal_);
}

FaultWord::~FaultWord() {
  driver_.release(ordinal_, word_);
}

int FaultWord::take() {
  driver_.synchronize(ordinal_);
  int fault = 0;
  driver_.copy_from_device(ordinal_, &fault, word_, sizeof(int));
  if (fault != 0) driver_.zero(ordinal_, word_, sizeof(int));
  return fault;
}

namespace {

class GpuOperation final : public Operation {
 public:
  GpuOperation(GpuDriver& driver, DeviceFacts facts, std::shared_ptr<GpuModule> module,
               std::shared_ptr<FaultWord> faults, const OperationLaunch& launch)
      : driver_(driver),
        facts_(std::move(facts)),
        module_(std::move(module)),
        faults_(std::move(faults)),
        shape_{static_cast<unsigned>(launch.items), launch.threads, 0},
        function_(module_->entry(launch.entry, 0)) {}

  void run(const void* arguments, std::span<const NamedPointer> pointers,
           Stream stream) const override {
    check_owners(driver_, facts_, pointers);
    if (driver_.capturing(stream)) keep_for_graphs(module_, faults_);
    void* parameters[] = {const_cast<void*>(arguments)};
    module_->launch(function_, shape_, parameters, stream);
  }

 private:
  GpuDriver& driver_;
  DeviceFacts facts_;
  std::shared_ptr<GpuModule> module_;
  std::shared_ptr<FaultWord> faults_;
  LaunchShape shape_;
  void* function_;
};

}  // namespace

std::unique_ptr<Operation> prepare_gpu_operation(GpuDriver& driver, const DeviceFacts& facts,
                                                 std::shared_ptr<GpuModule> module,
                                                 std::shared_ptr<FaultWord> faults,
                                                 const OperationLaunch& launch) {
  return std::make_unique<GpuOperation>(driver, facts, std::move(module), std::move(faults),
                                        launch);
}

}  // namespace hipflash::platform
