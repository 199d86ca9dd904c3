// Loading a shared object from bytes in memory.
#pragma once

#include <cstddef>
#include <span>

namespace hipflash::platform {

// A loaded shared object; unloaded by the destructor.
class SharedObject {
 public:
  // Throws Error(LaunchFailed) with the loader's words. Needs no writable or executable folder
  // where the kernel has memfd_create.
  explicit SharedObject(std::span<const std::byte> bytes);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // Throws Error(LaunchFailed) if there is no such symbol.
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
  int file_ = -1;
};

}  // namespace hipflash::platform
