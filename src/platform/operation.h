// Kernels that are not attention itself: one entry point with arguments of its own type, which pass
// through here as bytes.
#pragma once

#include <span>

#include "hipflash/device.h"

namespace hipflash::platform {

struct OperationLaunch {
  const char* entry = nullptr;  // extern "C" function of the code object, of static lifetime
  long long items = 0;          // GPU: blocks of a one-dimensional grid; CPU: work items
  unsigned threads = 0;         // GPU: of a block
};

// A pointer of a call, by the name that errors give it.
struct NamedPointer {
  const char* name;
  const void* pointer;  // null: absent
};

// A loaded operation with its launch: runs any number of times, from any thread.
//
// On a GPU the entry takes the arguments by value; on the CPU it is called as
// entry(const void* arguments, long long item) for every item.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // On a GPU this enqueues on the stream, after checking that each of `pointers` is memory of the
  // device or of the host where the device reads that; on the CPU it computes. `arguments` is only
  // read.
  virtual void run(const void* arguments, std::span<const NamedPointer> pointers,
                   Stream stream) const = 0;
};

}  // namespace hipflash::platform
