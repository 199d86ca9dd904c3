// What graphs of the runtime were recorded with. Nobody tells the library when a graph is
// destroyed, and it may be replayed after its Context and Plans are gone. So this lives as long as
// the process: at most a code object for each kernel, since a Context made later finds it loaded,
// and a word for each Context.
#pragma once

#include <memory>
#include <string>

#include "platform/gpu/gpu_module.h"

namespace hipflash::platform {

// Called for every launch that a graph records; takes a lock at the first one for a module and
// word.
void keep_for_graphs(const std::shared_ptr<GpuModule>& module,
                     const std::shared_ptr<FaultWord>& faults);

// The module with this key that is kept for a graph of this device; null: there is none.
std::shared_ptr<GpuModule> find_recorded(const GpuDriver& driver, int ordinal,
                                         const std::string& key);

}  // namespace hipflash::platform
