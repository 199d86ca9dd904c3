// Memory, a stream and captured graphs of the device that a Context is for: of the CPU, or of the
// CUDA driver or HIP runtime, which are looked for when the program runs, so that it can be built
// without them. A program that is built with CUDA or HIP calls these functions by their names.
#pragma once

#include <dlfcn.h>
#include <hipflash/device.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

class Runtime {
 public:
  explicit Runtime(hipflash::DeviceId device) : cpu_(device.platform == hipflash::Platform::cpu) {
    if (cpu_) return;
    const bool hip = device.platform == hipflash::Platform::hip;
    const std::vector<const char*> names =
        hip ? std::vector{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}
            : std::vector{"libcuda.so.1"};
    for (const char* name : names) {
      if (!library_) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library_) throw std::runtime_error("the runtime of this device is not installed");
    find(allocate_, hip ? "hipMalloc" : "cuMemAlloc_v2");
    find(release_, hip ? "hipFree" : "cuMemFree_v2");
    find(upload_, hip ? "hipMemcpyHtoD" : "cuMemcpyHtoD_v2");
    find(download_, hip ? "hipMemcpyDtoH" : "cuMemcpyDtoH_v2");
    find(create_stream_, hip ? "hipStreamCreateWithFlags" : "cuStreamCreate", hip);
    find(synchronize_, hip ? "hipStreamSynchronize" : "cuStreamSynchronize", hip);
    find(begin_, hip ? "hipStreamBeginCapture" : "cuStreamBeginCapture_v2", true);
    find(end_, hip ? "hipStreamEndCapture" : "cuStreamEndCapture", true);
    find(instantiate_, hip ? "hipGraphInstantiateWithFlags" : "cuGraphInstantiateWithFlags", true);
    find(launch_, hip ? "hipGraphLaunch" : "cuGraphLaunch", true);
    make_current(hip, device.ordinal);
    // A stream that waits for copies, which go to the default stream.
    constexpr unsigned kBlocking = 0;
    if (create_stream_) check("stream", create_stream_(&stream_.handle, kBlocking));
  }

  // False for the CPU, and for a runtime without graphs, such as an emulated one.
  bool has_graphs() const {
    return create_stream_ && synchronize_ && begin_ && end_ && instantiate_ && launch_;
  }
  hipflash::Stream stream() const { return stream_; }
  void synchronize() {
    if (synchronize_) check("synchronize", synchronize_(stream_.handle));
  }

  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (cpu_) {
      memory = std::malloc(bytes);
    } else {
      check("allocate", allocate_(&memory, bytes));
    }
    if (!memory) throw std::bad_alloc();
    return memory;
  }
  void release(void* memory) {
    if (cpu_) {
      std::free(memory);
    } else {
      release_(memory);
    }
  }
  void upload(void* to, const void* from, std::size_t bytes) {
    if (cpu_) {
      std::memcpy(to, from, bytes);
    } else {
      check("upload", upload_(to, from, bytes));
    }
  }
  void download(void* to, const void* from, std::size_t bytes) {
    synchronize();  // what the stream does is not known to the copy
    if (cpu_) {
      std::memcpy(to, from, bytes);
    } else {
      check("download", download_(to, from, bytes));
    }
  }

  // What `work` puts on the stream, ready to run() any number of times.
  template <class Work>
  void* capture(Work&& work) {
    constexpr int kThisThread = 1;
    void *graph = nullptr, *ready = nullptr;
    check("begin capture", begin_(stream_.handle, kThisThread));
    work();
    check("end capture", end_(stream_.handle, &graph));
    check("instantiate", instantiate_(&ready, graph, 0));
    return ready;
  }
  void run(void* graph) { check("graph launch", launch_(graph, stream_.handle)); }

 private:
  // The device that this thread's calls are for.
  void make_current(bool hip, int ordinal) {
    if (hip) {
      int (*set_device)(int) = nullptr;
      find(set_device, "hipSetDevice");
      check("set device", set_device(ordinal));
      return;
    }
    int (*get_device)(int*, int) = nullptr;
    int (*retain_context)(void**, int) = nullptr;
    int (*set_context)(void*) = nullptr;
    find(get_device, "cuDeviceGet");
    find(retain_context, "cuDevicePrimaryCtxRetain");
    find(set_context, "cuCtxSetCurrent");
    int driver_device = 0;
    void* context = nullptr;
    check("device", get_device(&driver_device, ordinal));
    check("context", retain_context(&context, driver_device));
    check("set context", set_context(context));
  }
  template <class Function>
  void find(Function*& function, const char* name, bool may_be_missing = false) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (!function && !may_be_missing) throw std::runtime_error(std::string("no ") + name);
  }
  static void check(const char* what, int error) {
    if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::to_string(error));
  }

  bool cpu_;
  void* library_ = nullptr;  // stays loaded: the library uses it too
  hipflash::Stream stream_;
  int (*allocate_)(void**, std::size_t) = nullptr;
  int (*release_)(void*) = nullptr;
  int (*upload_)(void*, const void*, std::size_t) = nullptr;
  int (*download_)(void*, const void*, std::size_t) = nullptr;
  int (*create_stream_)(void**, unsigned) = nullptr;
  int (*synchronize_)(void*) = nullptr;
  int (*begin_)(void*, int) = nullptr;
  int (*end_)(void*, void**) = nullptr;
  int (*instantiate_)(void**, void*, unsigned long long) = nullptr;
  int (*launch_)(void*, void*) = nullptr;
};

// `count` elements in the device's memory.
template <class T>
class Array {
 public:
  Array(Runtime& runtime, std::size_t count)
      : runtime_(runtime),
        count_(count),
        data_(static_cast<T*>(runtime.allocate(count * sizeof(T)))) {}
  Array(Runtime& runtime, const std::vector<T>& values) : Array(runtime, values.size()) {
    put(values);
  }
  Array(const Array&) = delete;
  ~Array() { runtime_.release(data_); }

  T* data() const { return data_; }
  // Replaces the first values.size() elements.
  void put(const std::vector<T>& values) {
    if (values.size() > count_) throw std::length_error("more values than the array holds");
    runtime_.upload(data_, values.data(), values.size() * sizeof(T));
  }
  // The first `count` elements.
  std::vector<T> get(std::size_t count) const {
    std::vector<T> values(count);
    runtime_.download(values.data(), data_, count * sizeof(T));
    return values;
  }

 private:
  Runtime& runtime_;
  std::size_t count_;
  T* data_;
};
