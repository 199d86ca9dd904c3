// The CUDA driver API by dlopen. Its types are few and their layout is fixed by the driver's binary
// interface, so no CUDA header is needed to build.
#include "platform/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "core/fail.h"

namespace hipflash::platform {
namespace {

using Result = int;
using CudaDevice = int;
struct ContextTag;
using CudaContext = ContextTag*;
using Pointer = std::uint64_t;  // CUdeviceptr

constexpr Result kSuccess = 0, kOutOfMemory = 2;
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedOptIn = 97, kPageable = 88;
// Compute capability from which griddepcontrol.wait is more than nothing.
constexpr int kWaitsByItself = 9;
constexpr int kMemoryClock = 36, kMemoryBus = 37;
constexpr int kPointerDevice = 9;     // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

constexpr int kBeginsEarly = 6;           // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
constexpr int kGraphsBeginEarly = 12030;  // driver version that records it in graphs

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
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

struct Api {
  Result (*init)(unsigned);
  Result (*error_string)(Result, const char**);
  Result (*device_count)(int*);
  Result (*device_get)(CudaDevice*, int);
  Result (*device_name)(char*, int, CudaDevice);
  Result (*device_memory)(std::size_t*, CudaDevice);
  Result (*device_attribute)(int*, int, CudaDevice);
  Result (*retain)(CudaContext*, CudaDevice);
  Result (*get_current)(CudaContext*);
  Result (*set_current)(CudaContext);
  Result (*module_load)(void**, const void*);
  Result (*module_unload)(void*);
  Result (*module_function)(void**, void*, const char*);
  Result (*function_attribute)(void*, int, int);
  Result (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
  Result (*launch_with)(const LaunchConfig*, void*, void**, void**);  // null: not there
  Result (*version)(int*);
  Result (*stream_capturing)(void*, int*);
  Result (*pointer_attribute)(void*, int, Pointer);
  Result (*allocate)(Pointer*, std::size_t);
  Result (*release)(Pointer);
  Result (*allocate_async)(Pointer*, std::size_t, void*);
  Result (*release_async)(Pointer, void*);
  Result (*set_bytes)(Pointer, unsigned char, std::size_t);
  Result (*to_device)(Pointer, const void*, std::size_t);
  Result (*from_device)(void*, Pointer, std::size_t);
  Result (*synchronize)();
  Result (*event_create)(void**, unsigned);
  Result (*event_record)(void*, void*);
  Result (*event_synchronize)(void*);
  Result (*event_elapsed)(float*, void*, void*);
  Result (*event_destroy)(void*);
};

class CudaDriver final : public GpuDriver {
 public:
  CudaDriver() {
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) {
      fail(ErrorCode::NoDevice, "cuda: the NVIDIA driver is not installed ({})", ::dlerror());
    }
    bind(api_.init, "cuInit");
    bind(api_.error_string, "cuGetErrorString");
    bind(api_.device_count, "cuDeviceGetCount");
    bind(api_.device_get, "cuDeviceGet");
    bind(api_.device_name, "cuDeviceGetName");
    bind(api_.device_memory, "cuDeviceTotalMem_v2");
    bind(api_.device_attribute, "cuDeviceGetAttribute");
    bind(api_.retain, "cuDevicePrimaryCtxRetain");
    bind(api_.get_current, "cuCtxGetCurrent");
    bind(api_.set_current, "cuCtxSetCurrent");
    bind(api_.module_load, "cuModuleLoadData");
    bind(api_.module_unload, "cuModuleUnload");
    bind(api_.module_function, "cuModuleGetFunction");
    bind(api_.function_attribute, "cuFuncSetAttribute");
    bind(api_.launch, "cuLaunchKernel");
    bind(api_.version, "cuDriverGetVersion");
    bind(api_.stream_capturing, "cuStreamIsCapturing");
    bind(api_.pointer_attribute, "cuPointerGetAttribute");
    bind(api_.allocate, "cuMemAlloc_v2");
    bind(api_.release, "cuMemFree_v2");
    bind(api_.allocate_async, "cuMemAllocAsync");
    bind(api_.release_async, "cuMemFreeAsync");
    bind(api_.set_bytes, "cuMemsetD8_v2");
    bind(api_.to_device, "cuMemcpyHtoD_v2");
    bind(api_.from_device, "cuMemcpyDtoH_v2");
    bind(api_.synchronize, "cuCtxSynchronize");
    bind(api_.event_create, "cuEventCreate");
    bind(api_.event_record, "cuEventRecord");
    bind(api_.event_synchronize, "cuEventSynchronize");
    bind(api_.event_elapsed, "cuEventElapsedTime");
    bind(api_.event_destroy, "cuEventDestroy_v2");
    check_device(api_.init(0), "cuInit");
    int count = 0, version = 0;
    check_device(api_.version(&version), "cuDriverGetVersion");
    if (version >= kGraphsBeginEarly) bind(api_.launch_with, "cuLaunchKernelEx");
    check_device(api_.device_count(&count), "cuDeviceGetCount");
    for (int i = 0; i < count; ++i) contexts_.emplace_back();
  }

  int device_count() override { return static_cast<int>(contexts_.size()); }

  DeviceFacts facts(int ordinal) override {
    const CudaDevice device = device_at(ordinal);
    DeviceFacts facts;
    facts.kind = Kind::cuda;
    facts.ordinal = ordinal;
    char name[256] = {};
    check_device(api_.device_name(name, sizeof name, device), "cuDeviceGetName");
    facts.name = name;
    const int major = attribute(device, kMajor), minor = attribute(device, kMinor);
    // The "a" of 9.0 stands for wgmma and TMA, which only that very architecture has.
    facts.arch = fmt::format("sm_{}{}{}", major, minor, major == 9 && minor == 0 ? "a" : "");
    facts.compute_units = attribute(device, kMultiprocessors);
    facts.wave_size = 32;
    facts.shared_bytes = static_cast<std::size_t>(attribute(device, kSharedOptIn));
    facts.memory_clock_khz = attribute(device, kMemoryClock);
    facts.memory_bus_bits = attribute(device, kMemoryBus);
    facts.reads_host_memory = attribute(device, kPageable) != 0;
    check_device(api_.device_memory(&facts.memory_bytes, device), "cuDeviceTotalMem");
    return facts;
  }

  void* load_module(int ordinal, std::span<const std::byte> code) override {
    make_current(ordinal);
    void* module = nullptr;
    check(api_.module_load(&module, code.data()), "cuModuleLoadData");
    return module;
  }
  void unload_module(int ordinal, void* module) noexcept override {
    try {
      make_current(ordinal);
      api_.module_unload(module);
    } catch (...) {  // the context is gone, and the module with it
    }
  }
  void* function(void* module, const char* name) override {
    void* function = nullptr;
    check(api_.module_function(&function, module, name), name);
    return function;
  }
  void allow_shared(void* function, unsigned bytes) override {
    check(api_.function_attribute(function, kMaxDynamicShared, static_cast<int>(bytes)),
          "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
  }
  void launch(int ordinal, void* function, const LaunchShape& shape, void** parameters,
              Stream stream) override {
    make_current(ordinal);
    const bool waits_by_itself = contexts_[static_cast<std::size_t>(ordinal)].waits_by_itself;
    if (shape.begins_early && waits_by_itself && api_.launch_with) {
      LaunchAttribute early = {kBeginsEarly, {}, {}};
      early.value[0] = 1;
      const LaunchConfig config = {{shape.blocks, 1, 1},
                                   {shape.threads / shape.thread_rows, shape.thread_rows, 1},
                                   shape.shared_bytes,
                                   stream.handle,
                                   &early,
                                   1};
      check(api_.launch_with(&config, function, parameters, nullptr), "cuLaunchKernelEx");
      return;
    }
    check(api_.launch(function, shape.blocks, 1, 1, shape.threads / shape.thread_rows,
                      shape.thread_rows, 1, shape.shared_bytes, stream.handle, parameters, nullptr),
          "cuLaunchKernel");
  }

  bool capturing(Stream stream) override {
    int status = 0;
    // The legacy default stream cannot capture and refuses to be asked while another one does.
    return stream.handle && api_.stream_capturing(stream.handle, &status) == kSuccess &&
           status != 0;
  }
  int device_of(const void* pointer) override {
    int ordinal = -1;
    const auto address = reinterpret_cast<Pointer>(pointer);
    return api_.pointer_attribute(&ordinal, kPointerDevice, address) == kSuccess ? ordinal : -1;
  }

  void* allocate(int ordinal, std::size_t bytes) override {
    make_current(ordinal);
    Pointer memory = 0;
    check(api_.allocate(&memory, bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(memory);
  }
  void release(int ordinal, void* memory) noexcept override {
    try {
      make_current(ordinal);
      api_.release(reinterpret_cast<Pointer>(memory));
    } catch (...) {  // as for modules
    }
  }
  void* allocate_on(int ordinal, std::size_t bytes, Stream stream) override {
    make_current(ordinal);
    Pointer memory = 0;
    check(api_.allocate_async(&memory, bytes, stream.handle), "cuMemAllocAsync");
    return reinterpret_cast<void*>(memory);
  }
  void release_on(int ordinal, void* memory, Stream stream) override {
    make_current(ordinal);
    check(api_.release_async(reinterpret_cast<Pointer>(memory), stream.handle), "cuMemFreeAsync");
  }

  void zero(int ordinal, void* memory, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.set_bytes(reinterpret_cast<Pointer>(memory), 0, bytes), "cuMemsetD8");
  }
  void copy_to_device(int ordinal, void* to, const void* from, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.to_device(reinterpret_cast<Pointer>(to), from, bytes), "cuMemcpyHtoD");
  }
  void copy_from_device(int ordinal, void* to, const void* from, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.from_device(to, reinterpret_cast<Pointer>(from), bytes), "cuMemcpyDtoH");
  }
  void synchronize(int ordinal) override {
    make_current(ordinal);
    check(api_.synchronize(), "cuCtxSynchronize");
  }
  double time_ms(int ordinal, void (*work)(void*), void* context) override {
    make_current(ordinal);
    void* events[2] = {};
    for (void*& event : events) check(api_.event_create(&event, 0), "cuEventCreate");
    check(api_.event_record(events[0], nullptr), "cuEventRecord");
    work(context);
    check(api_.event_record(events[1], nullptr), "cuEventRecord");
    check(api_.event_synchronize(events[1]), "cuEventSynchronize");
    float ms = 0.0f;
    check(api_.event_elapsed(&ms, events[0], events[1]), "cuEventElapsedTime");
    for (void* event : events) api_.event_destroy(event);
    return static_cast<double>(ms);
  }

 private:
  template <class F>
  void bind(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(library_, name));
    if (!function) fail(ErrorCode::NoDevice, "cuda: the driver is too old: it has no {}", name);
  }

  std::string words(Result result) const {
    const char* text = nullptr;
    if (api_.error_string(result, &text) != kSuccess || !text) text = "unknown error";
    return fmt::format("{} ({})", text, result);
  }
  void check_device(Result result, const char* call) const {
    if (result != kSuccess) fail(ErrorCode::NoDevice, "cuda: {}: {}", call, words(result));
  }
  void check(Result result, const char* call) const {
    if (result == kSuccess) return;
    fail(result == kOutOfMemory ? ErrorCode::OutOfMemory : ErrorCode::LaunchFailed, "cuda: {}: {}",
         call, words(result));
  }

  CudaDevice device_at(int ordinal) const {
    if (ordinal < 0 || ordinal >= static_cast<int>(contexts_.size())) {
      fail(ErrorCode::NoDevice, "device = cuda:{}: there are {} CUDA devices", ordinal,
           contexts_.size());
    }
    CudaDevice device = 0;
    check_device(api_.device_get(&device, ordinal), "cuDeviceGet");
    return device;
  }
  int attribute(CudaDevice device, int which) const {
    int value = 0;
    check_device(api_.device_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  }

  // The primary context, which the CUDA runtime and PyTorch use too.
  void make_current(int ordinal) {
    Context& context = contexts_[static_cast<std::size_t>(ordinal)];
    std::call_once(context.retained, [&] {
      const CudaDevice device = device_at(ordinal);
      context.waits_by_itself = attribute(device, kMajor) >= kWaitsByItself;
      check_device(api_.retain(&context.handle, device), "cuDevicePrimaryCtxRetain");
    });
    CudaContext current = nullptr;
    if (api_.get_current(&current) == kSuccess && current == context.handle) return;
    check(api_.set_current(context.handle), "cuCtxSetCurrent");
  }

  struct Context {
    std::once_flag retained;
    CudaContext handle = nullptr;
    bool waits_by_itself = false;  // kernels can wait for the launch before them
  };

  void* library_ = nullptr;
  Api api_ = {};
  std::deque<Context> contexts_;
};

}  // namespace

std::unique_ptr<GpuDriver> make_cuda_driver() {
  return std::make_unique<CudaDriver>();
}

}  // namespace hipflash::platform
