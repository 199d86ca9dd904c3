// What the library needs of a device, whatever its platform.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "jit/spec.h"
#include "platform/launch.h"
#include "platform/operation.h"

namespace hipflash::platform {

enum class Kind { cpu, hip, cuda };
const char* to_string(Kind kind) noexcept;

// What a plan may depend on. Comparable and free of pointers, so plans can be tested anywhere.
struct DeviceFacts {
  Kind kind = Kind::cpu;
  int ordinal = 0;
  std::string name;                // for people
  std::string arch;                // as in jit::Spec::arch
  int compute_units = 1;           // CPU: threads that the library uses
  int wave_size = 1;               // lanes of a wave; 1 on the CPU
  std::size_t shared_bytes = 0;    // LDS or shared memory that one block may use
  std::size_t memory_bytes = 0;    // total memory
  int memory_clock_khz = 0;        // 0: unknown, as on the CPU
  int memory_bus_bits = 0;         // likewise
  bool reads_host_memory = false;  // a GPU that reaches any memory of the process
  std::vector<std::string>
      notes;  // anything a user should know ("AVX-512 off: XCR0 lacks ZMM state")
};

// A loaded code object. Unloading happens in the destructor, after the work that uses it is done.
// One that a graph recorded is never unloaded.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const noexcept = 0;

  // True while the stream records a graph instead of running.
  virtual bool capturing(Stream) const { return false; }

  // Loads a code object; throws Error(LaunchFailed) if the device refuses it. Such a code object is
  // then treated as a cache miss.
  virtual std::shared_ptr<Module> load(const jit::CodeObject& code) = 0;

  // What runs a module that this device has loaded. It keeps the module, but not the device, alive.
  virtual std::unique_ptr<Runner> prepare(std::shared_ptr<Module> module, const Launch& launch) = 0;
  virtual std::unique_ptr<Operation> prepare_operation(std::shared_ptr<Module> module,
                                                       const OperationLaunch& launch) = 0;

  // The word that kernels report a SequenceFault in; null where lengths are checked before a call.
  virtual int* fault_word() { return nullptr; }
  // What a kernel reported since the last call, kNoFault if nothing. Waits for the device.
  virtual int take_fault() { return 0; }
};

}  // namespace hipflash::platform
