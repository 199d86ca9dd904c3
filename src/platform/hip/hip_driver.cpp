// The HIP runtime by dlopen, versions 5, 6 and 7. What this file uses of it has the same binary
// interface in all of them, but for the struct of device properties, so no HIP header is needed to
// build.
#include "platform/hip/hip_driver.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <string>

#include "core/fail.h"

namespace hipflash::platform {
namespace {

using Result = int;  // Result
struct StreamTag;
using StreamHandle = StreamTag*;  // hipStream_t

constexpr Result kSuccess = 0, kOutOfMemory = 2;
constexpr int kHostToDevice = 1, kDeviceToHost = 2;  // hipMemcpyKind
// hipDeviceAttribute_t
constexpr int kMemoryBus = 59, kMemoryClock = 60, kMultiprocessors = 63, kPageable = 65,
              kSharedPerBlock = 74, kWarpSize = 87;

// hipPointerAttribute_t
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};

// Room for hipDeviceProp_t of any version; its only member that no other call gives is the
// architecture's name, at an offset that changed once.
using Properties = std::array<char, 8192>;
constexpr std::size_t kArchName = 396, kArchNameR0600 = 1160, kArchNameBytes = 256;

struct Api {
  Result (*init)(unsigned);
  Result (*runtime_version)(int*);
  const char* (*error_string)(Result);
  Result (*device_count)(int*);
  Result (*device_name)(char*, int, int);
  Result (*device_memory)(std::size_t*, int);
  Result (*device_attribute)(int*, int, int);
  Result (*properties)(void*, int);
  Result (*get_device)(int*);
  Result (*set_device)(int);
  Result (*module_load)(void**, const void*);
  Result (*module_unload)(void*);
  Result (*module_function)(void**, void*, const char*);
  Result (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   StreamHandle, void**, void**);
  Result (*stream_capturing)(StreamHandle, int*);
  Result (*pointer_attributes)(PointerAttributes*, const void*);
  Result (*allocate)(void**, std::size_t);
  Result (*release)(void*);
  Result (*allocate_async)(void**, std::size_t, StreamHandle);
  Result (*release_async)(void*, StreamHandle);
  Result (*set_bytes)(void*, int, std::size_t);
  Result (*copy)(void*, const void*, std::size_t, int);
  Result (*synchronize)();
  Result (*event_create)(void**);
  Result (*event_record)(void*, StreamHandle);
  Result (*event_synchronize)(void*);
  Result (*event_elapsed)(float*, void*, void*);
  Result (*event_destroy)(void*);
};

class HipDriver final : public GpuDriver {
 public:
  HipDriver() {
    open_library();
    bind(api_.init, "hipInit");
    bind(api_.runtime_version, "hipRuntimeGetVersion");
    bind(api_.error_string, "hipGetErrorString");
    check_version();
    find_properties();
    bind(api_.device_count, "hipGetDeviceCount");
    bind(api_.device_name, "hipDeviceGetName");
    bind(api_.device_memory, "hipDeviceTotalMem");
    bind(api_.device_attribute, "hipDeviceGetAttribute");
    bind(api_.get_device, "hipGetDevice");
    bind(api_.set_device, "hipSetDevice");
    bind(api_.module_load, "hipModuleLoadData");
    bind(api_.module_unload, "hipModuleUnload");
    bind(api_.module_function, "hipModuleGetFunction");
    bind(api_.launch, "hipModuleLaunchKernel");
    bind(api_.stream_capturing, "hipStreamIsCapturing");
    bind(api_.pointer_attributes, "hipPointerGetAttributes");
    bind(api_.allocate, "hipMalloc");
    bind(api_.release, "hipFree");
    bind(api_.allocate_async, "hipMallocAsync");
    bind(api_.release_async, "hipFreeAsync");
    bind(api_.set_bytes, "hipMemset");
    bind(api_.copy, "hipMemcpy");
    bind(api_.synchronize, "hipDeviceSynchronize");
    bind(api_.event_create, "hipEventCreate");
    bind(api_.event_record, "hipEventRecord");
    bind(api_.event_synchronize, "hipEventSynchronize");
    bind(api_.event_elapsed, "hipEventElapsedTime");
    bind(api_.event_destroy, "hipEventDestroy");
    check_device(api_.init(0), "hipInit: no AMD GPU that this process may use");
    check_device(api_.device_count(&count_), "hipGetDeviceCount");
  }

  int device_count() override { return count_; }

  DeviceFacts facts(int ordinal) override {
    if (ordinal < 0 || ordinal >= count_) {
      fail(ErrorCode::NoDevice, "device = hip:{}: there are {} HIP devices", ordinal, count_);
    }
    DeviceFacts facts;
    facts.kind = Kind::hip;
    facts.ordinal = ordinal;
    char name[256] = {};
    check_device(api_.device_name(name, sizeof name - 1, ordinal), "hipDeviceGetName");
    facts.name = name;
    facts.arch = architecture(ordinal);
    facts.compute_units = attribute(ordinal, kMultiprocessors);
    facts.wave_size = attribute(ordinal, kWarpSize);
    facts.shared_bytes = static_cast<std::size_t>(attribute(ordinal, kSharedPerBlock));
    facts.memory_clock_khz = attribute(ordinal, kMemoryClock);
    facts.memory_bus_bits = attribute(ordinal, kMemoryBus);
    facts.reads_host_memory = attribute(ordinal, kPageable) != 0;
    check_device(api_.device_memory(&facts.memory_bytes, ordinal), "hipDeviceTotalMem");
    return facts;
  }

  void* load_module(int ordinal, std::span<const std::byte> code) override {
    make_current(ordinal);
    void* module = nullptr;
    check(api_.module_load(&module, code.data()), "hipModuleLoadData");
    return module;
  }
  void unload_module(int ordinal, void* module) noexcept override {
    try {
      make_current(ordinal);
      (void)api_.module_unload(module);
    } catch (...) {  // the device is gone, and the module with it
    }
  }
  void* function(void* module, const char* name) override {
    void* function = nullptr;
    check(api_.module_function(&function, module, name), name);
    return function;
  }
  // AMD kernels of this library use static shared memory, whose size is in the code object.
  void allow_shared(void*, unsigned) override {}
  void launch(int ordinal, void* function, const LaunchShape& shape, void** parameters,
              Stream stream) override {
    make_current(ordinal);
    check(
        api_.launch(function, shape.blocks, 1, 1, shape.threads / shape.thread_rows,
                    shape.thread_rows, 1, shape.shared_bytes, handle(stream), parameters, nullptr),
        "hipModuleLaunchKernel");
  }

  bool capturing(Stream stream) override {
    int status = 0;
    return stream.handle && api_.stream_capturing(handle(stream), &status) == kSuccess &&
           status != 0;
  }
  int device_of(const void* pointer) override {
    PointerAttributes attributes = {};
    attributes.device = -1;  // some versions succeed for memory that they do not know
    return api_.pointer_attributes(&attributes, pointer) == kSuccess ? attributes.device : -1;
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
    check(api_.copy(to, from, bytes, kHostToDevice), "hipMemcpy");
  }
  void copy_from_device(int ordinal, void* to, const void* from, std::size_t bytes) override {
    make_current(ordinal);
    check(api_.copy(to, from, bytes, kDeviceToHost), "hipMemcpy");
  }
  void synchronize(int ordinal) override {
    make_current(ordinal);
    check(api_.synchronize(), "hipDeviceSynchronize");
  }
  double time_ms(int ordinal, void (*work)(void*), void* context) override {
    make_current(ordinal);
    void* events[2] = {};
    for (void*& event : events) check(api_.event_create(&event), "hipEventCreate");
    check(api_.event_record(events[0], nullptr), "hipEventRecord");
    work(context);
    check(api_.event_record(events[1], nullptr), "hipEventRecord");
    check(api_.event_synchronize(events[1]), "hipEventSynchronize");
    float ms = 0.0f;
    check(api_.event_elapsed(&ms, events[0], events[1]), "hipEventElapsedTime");
    for (void* event : events) (void)api_.event_destroy(event);
    return static_cast<double>(ms);
  }

 private:
  static StreamHandle handle(Stream stream) { return static_cast<StreamHandle>(stream.handle); }

  void open_library() {
    for (const int major : {7, 6, 5}) {
      const std::string name = fmt::format("libamdhip64.so.{}", major);
      for (const std::string& path : {name, "/opt/rocm/lib/" + name}) {
        library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library_) return;
      }
    }
    fail(ErrorCode::NoDevice,
         "hip: the HIP runtime is not installed: none of libamdhip64.so.7, .6 and .5 was found");
  }

  void check_version() {
    int version = 0;
    check_device(api_.runtime_version(&version), "hipRuntimeGetVersion");
    const int major = version / 10000000;
    if (major < 5 || major > 7) {
      fail(ErrorCode::NoDevice,
           "hip: the HIP runtime is version {}, but this library knows versions 5 to 7", major);
    }
  }

  // HIP 6 gave the function of the new struct a name of its own and kept the old one beside it.
  void find_properties() {
    api_.properties =
        reinterpret_cast<Result (*)(void*, int)>(::dlsym(library_, "hipGetDevicePropertiesR0600"));
    arch_name_ = kArchNameR0600;
    if (api_.properties) return;
    bind(api_.properties, "hipGetDeviceProperties");
    arch_name_ = kArchName;
  }

  std::string architecture(int ordinal) {
    const auto properties = std::make_unique<Properties>();
    check_device(api_.properties(properties->data(), ordinal), "hipGetDeviceProperties");
    const char* const name = properties->data() + arch_name_;
    std::string arch(name, ::strnlen(name, kArchNameBytes));
    if (arch.rfind("gfx", 0) != 0) {
      fail(ErrorCode::NoDevice, "hip:{}: the HIP runtime names no architecture (\"{}\")", ordinal,
           arch);
    }
    return arch;
  }

  int attribute(int ordinal, int which) {
    int value = 0;
    check_device(api_.device_attribute(&value, which, ordinal), "hipDeviceGetAttribute");
    return value;
  }

  template <class F>
  void bind(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    if (!function) fail(ErrorCode::NoDevice, "hip: the HIP runtime has no {}", name);
  }

  std::string words(Result result) const {
    return fmt::format("{} ({})", api_.error_string(result), static_cast<int>(result));
  }
  void check_device(Result result, const char* call) const {
    if (result != kSuccess) fail(ErrorCode::NoDevice, "hip: {}: {}", call, words(result));
  }
  void check(Result result, const char* call) const {
    if (result == kSuccess) return;
    fail(result == kOutOfMemory ? ErrorCode::OutOfMemory : ErrorCode::LaunchFailed, "hip: {}: {}",
         call, words(result));
  }

  void make_current(int ordinal) {
    int current = -1;
    if (api_.get_device(&current) == kSuccess && current == ordinal) return;
    check(api_.set_device(ordinal), "hipSetDevice");
  }

  void* library_ = nullptr;
  Api api_ = {};
  int count_ = 0;
  std::size_t arch_name_ = 0;  // of the device properties, in bytes
};

}  // namespace

std::unique_ptr<GpuDriver> make_hip_driver() {
  return std::make_unique<HipDriver>();
}

}  // namespace hipflash::platform
