#include "platform/gpu/recorded.h"

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace hipflash::platform {
namespace {

// Never destroyed: graphs may be replayed while the process exits.
struct Recorded {
  std::mutex mutex;
  // Two of a key if both were loaded before the first was recorded.
  std::multimap<std::tuple<const GpuDriver*, int, std::string>, std::shared_ptr<GpuModule>> modules;
  std::vector<std::shared_ptr<FaultWord>> words;
};

Recorded& recorded() {
  static auto* const instance = new Recorded;
  return *instance;
}

}  // namespace

void keep_for_graphs(const std::shared_ptr<GpuModule>& module,
                     const std::shared_ptr<FaultWord>& faults) {
  if (module->recorded && faults->recorded) return;
  const std::scoped_lock lock(recorded().mutex);
  if (!module->recorded) {
    recorded().modules.insert({{&module->driver(), module->ordinal(), module->key()}, module});
    module->recorded = true;  // what could not be inserted is not kept
  }
  if (!faults->recorded) {
    recorded().words.push_back(faults);
    faults->recorded = true;
  }
}

std::shared_ptr<GpuModule> find_recorded(const GpuDriver& driver, int ordinal,
                                         const std::string& key) {
  const std::scoped_lock lock(recorded().mutex);
  const auto at = recorded().modules.find({&driver, ordinal, key});
  return at == recorded().modules.end() ? nullptr : at->second;
}

}  // namespace hipflash::platform
