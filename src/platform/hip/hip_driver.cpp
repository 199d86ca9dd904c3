// The HIP runtime by dlopen. Types come from the HIP headers that the library is built with; HIP
// changes structs between major versions, so a runtime of another major version is refused.
#include "platform/hip/hip_driver.h"

#include "core/fail.h"

#if defined(HIPFLASH_HAVE_HIP)

#define __HIP_PLATFORM_AMD__ 1  // NOLINT(bugprone-reserved-identifier): of the HIP headers
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <string>

// Some functions are macros for versioned symbols (hipGetDevicePropertiesR0600).
#define HIPFLASH_NAME_OF_EXPANDED(name) #name
#define HIPFLASH_NAME_OF(name) HIPFLASH_NAME_OF_EXPANDED(name)
#define HIPFLASH_BIND(member, function) bind(member, HIPFLASH_NAME_OF(function))

namespace hipflash::platform {
namespace {

struct Api {
  decltype(&::hipInit) init;
  decltype(&::hipRuntimeGetVersion) runtime_version;
  decltype(&::hipGetErrorString) error_string;
  decltype(&::hipGetDeviceCount) device_count;
  hipError_t (*properties)(hipDeviceProp_t*, int);
  decltype(&::hipGetDevice) get_device;
  decltype(&::hipSetDevice) set_device;
  decltype(&::hipModuleLoadData) module_load;
  decltype(&::hipModuleUnload) module_unload;
  decltype(&::hipModuleGetFunction) module_function;
  decltype(&::hipModuleLaunchKernel) launch;
  decltype(&::hipStreamIsCapturing) stream_capturing;
  decltype(&::hipPointerGetAttributes) pointer_attributes;
  hipError_t (*allocate)(void**, std::size_t);
  decltype(&::hipFree) release;
  hipError_t (*allocate_async)(void**, std::size_t, hipStream_t);
  decltype(&::hipFreeAsync) release_async;
  decltype(&::hipMemset) set_bytes;
  decltype(&::hipMemcpy) copy;
  decltype(&::hipDeviceSynchronize) synchronize;
  hipError_t (*event_create)(hipEvent_t*);
  decltype(&::hipEventRecord) event_record;
  decltype(&::hipEventSynchronize) event_synchronize;
  decltype(&::hipEventElapsedTime) event_elapsed;
  decltype(&::hipEventDestroy) event_destroy;
};

class HipDriver final : public GpuDriver {
 public:
  HipDriver() {
    open_library();
    HIPFLASH_BIND(api_.init, hipInit);
    HIPFLASH_BIND(api_.runtime_version, hipRuntimeGetVersion);
    HIPFLASH_BIND(api_.error_string, hipGetErrorString);
    check_version();
    HIPFLASH_BIND(api_.device_count, hipGetDeviceCount);
    HIPFLASH_BIND(api_.properties, hipGetDeviceProperties);
    HIPFLASH_BIND(api_.get_device, hipGetDevice);
    HIPFLASH_BIND(api_.set_device, hipSetDevice);
    HIPFLASH_BIND(api_.module_load, hipModuleLoadData);
    HIPFLASH_BIND(api_.module_unload, hipModuleUnload);
    HIPFLASH_BIND(api_.module_function, hipModuleGetFunction);
    HIPFLASH_BIND(api_.launch, hipModuleLaunchKernel);
    HIPFLASH_BIND(api_.stream_capturing, hipStreamIsCapturing);
    HIPFLASH_BIND(api_.pointer_attributes, hipPointerGetAttributes);
    HIPFLASH_BIND(api_.allocate, hipMalloc);
    HIPFLASH_BIND(api_.release, hipFree);
    HIPFLASH_BIND(api_.allocate_async, hipMallocAsync);
    HIPFLASH_BIND(api_.release_async, hipFreeAsync);
    HIPFLASH_BIND(api_.set_bytes, hipMemset);
    HIPFLASH_BIND(api_.copy, hipMemcpy);
    HIPFLASH_BIND(api_.synchronize, hipDeviceSynchronize);
    HIPFLASH_BIND(api_.event_create, hipEventCreate);
    HIPFLASH_BIND(api_.event_record, hipEventRecord);
    HIPFLASH_BIND(api_.event_synchronize, hipEventSynchronize);
    HIPFLASH_BIND(api_.event_elapsed, hipEventElapsedTime);
    HIPFLASH_BIND(api_.event_destroy, hipEventDestroy);
    check_device(api_.init(0), "hipInit");
    check_device(api_.device_count(&count_), "hipGetDeviceCount");
  }

  int device_count() override { return count_; }

  DeviceFacts facts(int ordinal) override {
    if (ordinal < 0 || ordinal >= count_) {
      fail(ErrorCode::NoDevice, "device = hip:{}: there are {} HIP devices", ordinal, count_);
    }
    hipDeviceProp_t properties = {};
    check_device(api_.properties(&properties, ordinal), "hipGetDeviceProperties");
    DeviceFacts facts;
    facts.kind = Kind::hip;
    facts.ordinal = ordinal;
    facts.name = properties.name;
    facts.arch = properties.gcnArchName;
    facts.compute_units = properties.multiProcessorCount;
    facts.wave_size = properties.warpSize;
    facts.shared_bytes = properties.sharedMemPerBlock;
    facts.memory_bytes = properties.totalGlobalMem;
    facts.memory_clock_khz = properties.memoryClockRate;
    facts.memory_bus_bits = properties.memoryBusWidth;
    facts.reads_host_memory = properties.pageableMemoryAccess != 0;
    return facts;
  }

  void* load_module(int ordinal, std::span<const std::byte> code) override {
    make_current(ordinal);
    hipModule_t module = nullptr;
    check(api_.module_load(&module, code.data()), "hipModuleLoadData");
    return module;
  }
  void unload_module(int ordinal, void* module) noexcept override {
    try {
      make_current(ordinal);
      (void)api_.module_unload(static_cast<hipModule_t>(module));
    } catch (...) {  // the device is gone, and the module with it
    }
  }
  void* function(void* module, const char* name) override {
    hipFunction_t function = nullptr;
    check(api_.module_function(&function, static_cast<hipModule_t>(module), name), name);
    return function;
  }
  // AMD kernels of this library use static shared memory, whose size is in the code object.
  void allow_shared(void*, unsigned) override {}
  void launch(int ordinal, void* function, const LaunchShape& shape, void** parameters,
              Stream stream) override {
    make_current(ordinal);
    check(api_.launch(static_cast<hipFunction_t>(function), shape.blocks, 1, 1, shape.threads, 1, 1,
                      shape.shared_bytes, handle(stream), parameters, nullptr),
          "hipModuleLaunchKernel");
  }

  bool capturing(Stream stream) override {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    return stream.handle && api_.stream_capturing(handle(stream), &status) == hipSuccess &&
           status != hipStreamCaptureStatusNone;
  }
  int device_of(const void* pointer) override {
    hipPointerAttribute_t attributes = {};
    return api_.pointer_attributes(&attributes, pointer) == hipSuccess ? attributes.device : -1;
  }

  void* allocate(int ordinal, std::size_t bytes) override {
    make_current(ordinal);
    void* memory = nullptr;
    check(api_.allocate(&memory, bytes), "hipMalloc");
    return memory;
  }
  void release(int ordinal, void* memory) noexcept override {
    try {
      make_current(ordinal);
      (void)api_.release(memory);
    } catch (...) {  // as for modules
    }
  }
  void* allocate_on(int ordinal, std::size_t bytes, Stream stream) override {
    make_current(ordinal);
    void* memory = nullptr;
    check(api_.allocate_async(&memory, bytes, handle(stream)), "hipMallocAsync");
    return memory;
  }
  void release_on(int ordinal, void* memory, Stream stream) override {
    make_current(ordinal);
    check(api_.release_async(memory, handle(stream)), "hipFreeAsync");
  }

  void zero(int ordinal, void* memory, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.set_bytes(memory, 0, bytes), "hipMemset");
  }
  void copy_to_device(int ordinal, void* to, const void* from, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.copy(to, from, bytes, hipMemcpyHostToDevice), "hipMemcpy");
  }
  void copy_from_device(int ordinal, void* to, const void* from, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.copy(to, from, bytes, hipMemcpyDeviceToHost), "hipMemcpy");
  }
  void synchronize(int ordinal) override {
    make_current(ordinal);
    check(api_.synchronize(), "hipDeviceSynchronize");
  }
  double time_ms(int ordinal, void (*work)(void*), void* context) override {
    make_current(ordinal);
    hipEvent_t events[2] = {};
    for (hipEvent_t& event : events) check(api_.event_create(&event), "hipEventCreate");
    check(api_.event_record(events[0], nullptr), "hipEventRecord");
    work(context);
    check(api_.event_record(events[1], nullptr), "hipEventRecord");
    check(api_.event_synchronize(events[1]), "hipEventSynchronize");
    float ms = 0.0f;
    check(api_.event_elapsed(&ms, events[0], events[1]), "hipEventElapsedTime");
    for (hipEvent_t event : events) (void)api_.event_destroy(event);
    return static_cast<double>(ms);
  }

 private:
  static hipStream_t handle(Stream stream) { return static_cast<hipStream_t>(stream.handle); }

  // The runtime of the headers' version first; another one only to say which it is.
  void open_library() {
    for (const int major : {HIP_VERSION_MAJOR, 7, 6, 5}) {
      const std::string name = fmt::format("libamdhip64.so.{}", major);
      for (const std::string& path : {name, "/opt/rocm/lib/" + name}) {
        library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library_) return;
      }
    }
    fail(ErrorCode::NoDevice, "hip: the HIP runtime (libamdhip64.so.{}) is not installed",
         HIP_VERSION_MAJOR);
  }

  void check_version() {
    int version = 0;
    check_device(api_.runtime_version(&version), "hipRuntimeGetVersion");
    const int major = version / 10000000;
    if (major != HIP_VERSION_MAJOR) {
      fail(ErrorCode::NoDevice,
           "hip: the HIP runtime is version {}, but this library was built for version {}, whose "
           "structs differ: build it with the headers of HIP {}",
           major, HIP_VERSION_MAJOR, major);
    }
  }

  template <class F>
  void bind(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    if (!function) fail(ErrorCode::NoDevice, "hip: the HIP runtime has no {}", name);
  }

  std::string words(hipError_t result) const {
    return fmt::format("{} ({})", api_.error_string(result), static_cast<int>(result));
  }
  void check_device(hipError_t result, const char* call) const {
    if (result != hipSuccess) fail(ErrorCode::NoDevice, "hip: {}: {}", call, words(result));
  }
  void check(hipError_t result, const char* call) const {
    if (result == hipSuccess) return;
    fail(result == hipErrorOutOfMemory ? ErrorCode::OutOfMemory : ErrorCode::LaunchFailed,
         "hip: {}: {}", call, words(result));
  }

  void make_current(int ordinal) {
    int current = -1;
    if (api_.get_device(&current) == hipSuccess && current == ordinal) return;
    check(api_.set_device(ordinal), "hipSetDevice");
  }

  void* library_ = nullptr;
  Api api_ = {};
  int count_ = 0;
};

}  // namespace

std::unique_ptr<GpuDriver> make_hip_driver() {
  return std::make_unique<HipDriver>();
}

}  // namespace hipflash::platform

#else

namespace hipflash::platform {

std::unique_ptr<GpuDriver> make_hip_driver() {
  fail(ErrorCode::NoDevice, "hip: this library was built without the HIP headers");
}

}  // namespace hipflash::platform

#endif
