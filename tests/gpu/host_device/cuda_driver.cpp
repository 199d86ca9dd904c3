// A CUDA driver whose devices are this machine's CPU: what src/platform/cuda/ calls of libcuda,
// over kernels that the NVRTC beside it (nvrtc.cpp) compiled for the host. As hip_runtime.cpp, but
// without graphs.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/host_device/code_image.h"
#include "gpu/host_device/cuda_threads.h"
#include "gpu/host_device/device.h"

namespace {

using namespace host_device;

// CUdevice_attribute
enum Attribute { kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedOptIn = 97 };
constexpr int kPointerDevice = 9, kMaxDynamicShared = 8, kBeginsEarly = 6;

struct Device {
  std::string arch;
  int number;  // of the architecture
  int shared_bytes;
};

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  char padding[4];
  int value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct Launch {
  Function* function;
  hipflash::host::Grid grid;
  std::vector<char> arguments;
  std::shared_ptr<Launch> before;  // that need not have ended
};

// One lock for everything: threads of one block run at a time.
std::recursive_mutex& mutex = *new std::recursive_mutex;
thread_local int current = -1;
// The last launch, as long as nothing needs it to have run.
std::shared_ptr<Launch>& pending = *new std::shared_ptr<Launch>;
// Of the first launch that failed: from then on every call of the driver says so.
int failure = kSuccess;

int shared_bytes_of(int number) {
  return number == 90 ? 232448 : number == 80 ? 166912 : 101376;
}

const std::vector<Device>& devices() {
  static const auto& all = *new std::vector<Device>([] {
    std::vector<Device> made;
    for (const std::string& arch : archs("sm_80")) {
      const int number = std::stoi(arch.substr(arch.find('_') + 1));
      made.push_back({arch, number, shared_bytes_of(number)});
    }
    return made;
  }());
  return all;
}

void run(const Launch& launch) {
  hipflash::host::run_grid(
      launch.grid, [&] { launch.function->call(const_cast<char*>(launch.arguments.data())); },
      launch.before ? std::function<void()>([&] { run(*launch.before); }) : nullptr);
}
int run_pending() {
  if (!pending) return failure;
  const std::shared_ptr<Launch> launch = std::move(pending);
  pending = nullptr;
  try {
    run(*launch);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host device: %s\n", error.what());
    failure = kLaunchFailure;
  }
  return failure;
}

// Frees in any case; what launches so far came to is told first.
template <class Free>
int after_launches(Free&& free) {
  const int failed = run_pending();
  const int freed = free();
  return failed ? failed : freed;
}

int allocate(std::uintptr_t* at, std::size_t bytes) {
  *at = reinterpret_cast<std::uintptr_t>(take(bytes, current));
  return *at ? kSuccess : kOutOfMemory;
}

int launch(Function* function, unsigned blocks, unsigned threads_x, unsigned threads_y,
           unsigned shared_bytes, void** parameters, bool begins_early) {
  if (failure) return failure;
  if (!function->module->loaded) return kInvalidHandle;
  if (function->module->device != current) return kInvalidContext;
  if (blocks == 0 || threads_x * threads_y == 0 || threads_x * threads_y > 1024 ||
      shared_bytes > function->shared_bytes) {
    return kInvalidValue;
  }
  if (!begins_early) {
    if (const int failed = run_pending()) return failed;
  }
  std::vector<char> arguments;
  for (std::size_t i = 0; i < function->sizes.size(); i++) {
    const char* const one = static_cast<const char*>(parameters[i]);
    arguments.insert(arguments.end(), one, one + function->sizes[i]);
  }
  pending = std::make_shared<Launch>(Launch{
      function, {blocks, threads_x, threads_y, shared_bytes}, std::move(arguments), pending});
  return kSuccess;
}

}  // namespace

#define CUDA extern "C" __attribute__((visibility("default"))) int
#define LOCKED const std::scoped_lock lock(mutex)
// For what comes after all launches so far.
#define ENDED \
  LOCKED;     \
  if (const int failed = run_pending()) return failed

CUDA cuInit(unsigned) {
  return kSuccess;
}
CUDA cuDriverGetVersion(int* version) {
  *version = 12080;
  return kSuccess;
}
CUDA cuGetErrorString(int, const char** words) {
  *words = "as the host device says";
  return kSuccess;
}
CUDA cuDeviceGetCount(int* count) {
  *count = static_cast<int>(devices().size());
  return kSuccess;
}
CUDA cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
CUDA cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "emulated by host code");
  return kSuccess;
}
CUDA cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 33;
  return kSuccess;
}
CUDA cuDeviceGetAttribute(int* value, int which, int device) {
  const Device& mine = devices().at(static_cast<std::size_t>(device));
  // Blocks of the kernels that stay and take pieces of work take several, of few multiprocessors.
  const int multiprocessors = mine.number == 90 ? 2 : 108;
  *value = which == kMultiprocessors ? multiprocessors
           : which == kMajor         ? mine.number / 10
           : which == kMinor         ? mine.number % 10
           : which == kSharedOptIn   ? mine.shared_bytes
                                     : 0;
  return kSuccess;
}
CUDA cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(device) + 1);
  return kSuccess;
}
CUDA cuCtxGetCurrent(void** context) {
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(current + 1));
  return kSuccess;
}
CUDA cuCtxSetCurrent(void* context) {
  current = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
  return kSuccess;
}

CUDA cuModuleLoadData(Module** module, const void* image) {
  ENDED;
  const Device& device = devices().at(static_cast<std::size_t>(current));
  return load_module(module, image, current, device.arch);
}
CUDA cuModuleUnload(Module* module) {
  LOCKED;
  return after_launches([&] { return unload_module(module); });
}
CUDA cuModuleGetFunction(Function** function, Module* module, const char* name) {
  LOCKED;
  return find_function(function, module, name);
}
CUDA cuFuncSetAttribute(Function* function, int which, int value) {
  LOCKED;
  const int most = devices().at(static_cast<std::size_t>(function->module->device)).shared_bytes;
  if (which != kMaxDynamicShared || value > most) return kInvalidValue;
  function->shared_bytes = static_cast<unsigned>(value);
  return kSuccess;
}
CUDA cuLaunchKernel(Function* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                    unsigned threads_x, unsigned threads_y, unsigned threads_z,
                    unsigned shared_bytes, void*, void** parameters, void** extra) {
  LOCKED;
  if (blocks_y * blocks_z * threads_z != 1 || extra) return kInvalidValue;
  return launch(function, blocks, threads_x, threads_y, shared_bytes, parameters, false);
}
CUDA cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** parameters,
                      void** extra) {
  LOCKED;
  if (config->grid[1] * config->grid[2] * config->block[2] != 1 || extra) return kInvalidValue;
  bool early = false;
  for (unsigned i = 0; i < config->attribute_count; i++) {
    early = early || (config->attributes[i].id == kBeginsEarly && config->attributes[i].value[0]);
  }
  return launch(function, config->grid[0], config->block[0], config->block[1], config->shared_bytes,
                parameters, early);
}

CUDA cuStreamIsCapturing(void*, int* status) {
  *status = 0;
  return kSuccess;
}
CUDA cuPointerGetAttribute(int* ordinal, int which, std::uintptr_t at) {
  LOCKED;
  if (which != kPointerDevice) return kInvalidValue;
  return find_owner(ordinal, reinterpret_cast<const void*>(at));
}
CUDA cuMemAlloc_v2(std::uintptr_t* at, std::size_t bytes) {
  ENDED;
  return allocate(at, bytes);
}
CUDA cuMemFree_v2(std::uintptr_t at) {
  LOCKED;
  return after_launches([&] { return give_back(reinterpret_cast<void*>(at)); });
}
CUDA cuMemAllocAsync(std::uintptr_t* at, std::size_t bytes, void*) {
  LOCKED;
  if (failure) return failure;
  return allocate(at, bytes);
}
CUDA cuMemFreeAsync(std::uintptr_t at, void*) {
  LOCKED;
  return after_launches([&] { return give_back(reinterpret_cast<void*>(at)); });
}
CUDA cuMemsetD8_v2(std::uintptr_t at, unsigned char value, std::size_t bytes) {
  ENDED;
  std::memset(reinterpret_cast<void*>(at), value, bytes);
  return kSuccess;
}
CUDA cuMemcpyHtoD_v2(std::uintptr_t to, const void* from, std::size_t bytes) {
  ENDED;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kSuccess;
}
CUDA cuMemcpyDtoH_v2(void* to, std::uintptr_t from, std::size_t bytes) {
  ENDED;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}
CUDA cuCtxSynchronize() {
  ENDED;
  return kSuccess;
}

CUDA cuEventCreate(void** event, unsigned) {
  *event = nullptr;
  return kSuccess;
}
CUDA cuEventRecord(void*, void*) {
  return kSuccess;
}
CUDA cuEventSynchronize(void*) {
  return kSuccess;
}
CUDA cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 1.0f;
  return kSuccess;
}
CUDA cuEventDestroy_v2(void*) {
  return kSuccess;
}
