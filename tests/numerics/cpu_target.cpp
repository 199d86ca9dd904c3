#include <map>
#include <memory>

#include "numerics/attention_case.h"
#include "numerics/target.h"

namespace hipflash::testing {
namespace {

class CpuTarget final : public Target {
 public:
  explicit CpuTarget(std::string isa) : isa_(std::move(isa)) {}
  Context& context() override { return context_for(isa_); }
  bool is_cpu() const override { return true; }
  void run(const Plan& plan, const TensorPointers& host, const std::vector<Block>&) override {
    plan.run(host);
  }
  void run(const std::vector<Block>&, const std::function<void(const Translate&)>& call) override {
    call([](const void* host) { return const_cast<void*>(host); });
  }

 private:
  const std::string isa_;
};

}  // namespace

std::vector<std::string> target_names() {
  return available_isas();
}

Target& target(const std::string& name) {
  static std::map<std::string, std::unique_ptr<CpuTarget>> targets;
  std::unique_ptr<CpuTarget>& made = targets[name];
  if (!made) made = std::make_unique<CpuTarget>(name);
  return *made;
}

}  // namespace hipflash::testing
