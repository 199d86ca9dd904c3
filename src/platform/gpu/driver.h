// What hipflash needs of a GPU runtime. HIP and the CUDA driver have the same shape; each
// implements this over a library that is opened at first use and never linked.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "hipflash/device.h"
#include "platform/device.h"
#include "platform/launch.h"

namespace hipflash::platform {

// All calls throw Error: NoDevice, OutOfMemory, or LaunchFailed with the runtime's words.
// Calls that name a device make it current for the calling thread, as the runtimes do.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;

  virtual int device_count() = 0;
  virtual DeviceFacts facts(int ordinal) = 0;

  virtual void* load_module(int ordinal, std::span<const std::byte> code) = 0;
  virtual void unload_module(int ordinal, void* module) noexcept = 0;
  virtual void* function(void* module, const char* name) = 0;
  // Dynamic shared memory above the default limit must be allowed once per function.
  virtual void allow_shared(void* function, unsigned bytes) = 0;
  virtual void launch(int ordinal, void* function, const LaunchShape& shape, void** parameters,
                      Stream stream) = 0;

  // True while the stream records a graph instead of running.
  virtual bool capturing(Stream stream) = 0;
  // The device that owns the memory at `pointer`, or -1 if the runtime does not know it.
  virtual int device_of(const void* pointer) = 0;

  virtual void* allocate(int ordinal, std::size_t bytes) = 0;
  virtual void release(int ordinal, void* memory) noexcept = 0;
  // In the stream's order: valid for work enqueued after, released after work enqueued before.
  virtual void* allocate_on(int ordinal, std::size_t bytes, Stream stream) = 0;
  virtual void release_on(int ordinal, void* memory, Stream stream) = 0;

  virtual void zero(int ordinal, void* memory, std::size_t bytes) = 0;
  virtual void copy_to_device(int ordinal, void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_from_device(int ordinal, void* to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize(int ordinal) = 0;
  // Milliseconds that `work` takes on the default stream, by events.
  virtual double time_ms(int ordinal, void (*work)(void*), void* context) = 0;
};

// The runtime of a platform, opened at the first call. Throws Error(NoDevice) with the reason if it
// is missing or unusable; the reason is remembered.
GpuDriver& gpu_driver(Kind kind);

}  // namespace hipflash::platform
