#include "platform/gpu/gpu_module.h"

#include <string>
#include <utility>

#include "core/fail.h"

namespace hipflash::platform {

GpuModule::GpuModule(GpuDriver& driver, int ordinal, std::span<const std::byte> code)
    : driver_(driver), ordinal_(ordinal), module_(driver.load_module(ordinal, code)) {}

GpuModule::~GpuModule() {
  driver_.unload_module(ordinal_, module_);
}

void* GpuModule::entry(const char* name, unsigned shared_bytes) const {
  void* const function = driver_.function(module_, name);
  if (shared_bytes > 48u * 1024u) driver_.allow_shared(function, shared_bytes);
  return function;
}

void check_owner(GpuDriver& driver, const DeviceFacts& facts, const char* name,
                 const void* pointer) {
  const int owner = driver.device_of(pointer);
  if (owner == facts.ordinal || (owner < 0 && facts.reads_host_memory)) return;
  const std::string where = owner < 0
                                ? "not memory of a device"
                                : fmt::format("memory of {}:{}", to_string(facts.kind), owner);
  fail(ErrorCode::InvalidArgument, "{} = {} is {}, but the plan is for {}:{}", name,
       fmt::ptr(pointer), where, to_string(facts.kind), facts.ordinal);
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
  GpuOperation(GpuDriver& driver, DeviceFacts facts, std::shared_ptr<const GpuModule> module,
               const OperationLaunch& launch)
      : driver_(driver),
        facts_(std::move(facts)),
        module_(std::move(module)),
        shape_{static_cast<unsigned>(launch.items), launch.threads, 0},
        function_(module_->entry(launch.entry, 0)) {}

  void run(const void* arguments, std::initializer_list<NamedPointer> pointers,
           Stream stream) const override {
    for (const auto& [name, pointer] : pointers) {
      if (pointer) check_owner(driver_, facts_, name, pointer);
    }
    void* parameters[] = {const_cast<void*>(arguments)};
    driver_.launch(facts_.ordinal, function_, shape_, parameters, stream);
  }

 private:
  GpuDriver& driver_;
  DeviceFacts facts_;
  std::shared_ptr<const GpuModule> module_;
  LaunchShape shape_;
  void* function_;
};

}  // namespace

std::unique_ptr<Operation> prepare_gpu_operation(GpuDriver& driver, const DeviceFacts& facts,
                                                 std::shared_ptr<const GpuModule> module,
                                                 const OperationLaunch& launch) {
  return std::make_unique<GpuOperation>(driver, facts, std::move(module), launch);
}

}  // namespace hipflash::platform
