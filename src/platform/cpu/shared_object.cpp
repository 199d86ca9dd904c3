#include "platform/cpu/shared_object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/fail.h"

namespace hipflash::platform {
namespace {

void write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(ErrorCode::LaunchFailed, "a kernel of {} bytes cannot be put into memory: {}",
           bytes.size(), std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// An unnamed file for the loader. In memory if possible; else an unlinked one in TMPDIR.
int unnamed_file() {
  const int in_memory = ::memfd_create("hipflash-kernel", MFD_CLOEXEC);
  if (in_memory >= 0) return in_memory;
  const char* folder = ::secure_getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/hipflash-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) {
    fail(ErrorCode::LaunchFailed, "no place to load a kernel from: memfd_create and {}: {}", path,
         std::strerror(errno));
  }
  ::unlink(path.c_str());
  return file;
}

}  // namespace

SharedObject::SharedObject(std::span<const std::byte> bytes) : file_(unnamed_file()) {
  try {
    write_all(file_, bytes);
    // The descriptor stays open as long as the object is loaded: the loader takes two objects of
    // the same path for the same one, and the number makes the path unique.
    const std::string path = fmt::format("/proc/self/fd/{}", file_);
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) {
      const char* words = ::dlerror();
      if (::access("/proc/self/fd", X_OK) != 0) {  // another kernel would not load either
        fail(ErrorCode::NotSupported,
             "CPU kernels are loaded by way of /proc, which is not mounted");
      }
      fail(ErrorCode::LaunchFailed, "a kernel does not load: {}",
           words ? words : "no reason given");
    }
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SharedObject::~SharedObject() {
  ::dlclose(handle_);
  ::close(file_);
}

void* SharedObject::symbol(const char* name) const {
  void* const address = ::dlsym(handle_, name);
  if (!address) fail(ErrorCode::LaunchFailed, "a kernel has no entry named {}", name);
  return address;
}

}  // namespace hipflash::platform
