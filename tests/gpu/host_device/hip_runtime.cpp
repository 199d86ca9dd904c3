// A HIP runtime whose devices are this machine's CPU: what src/platform/hip/ and the tests call of
// libamdhip64, over kernels that the hipRTC beside it (hiprtc.cpp) compiled for the host. The whole
// hip platform runs on it, under AddressSanitizer: kernels, their device memory, graphs.
//
// It is stricter than a device. Memory belongs to one device and ends where it was asked to;
// a module runs on the device that loaded it, and code for another architecture is refused; a
// graph that launches a kernel of an unloaded module fails; what must not be called while a stream
// records fails and spoils the recording. Everything runs at once, in the calling thread.
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/host_device/code_image.h"
#include "gpu/host_device/device.h"
#include "gpu/host_lanes.h"

// Kernels are linked with the library that has these.
#pragma GCC visibility push(default)
#include "gpu/host_words.h"
#pragma GCC visibility pop

namespace {

using namespace host_device;

struct Launch {
  Function* function;
  unsigned blocks, threads;
  std::vector<char> arguments;
};
struct Graph {
  std::vector<Launch> launches;
  std::vector<void*> memory;  // allocated inside of the recording
};
struct Stream {
  int device;
  std::unique_ptr<Graph> recording;
  bool spoiled = false;
};

// One lock for everything: lanes of one block run at a time.
std::recursive_mutex& mutex = *new std::recursive_mutex;
thread_local int current = 0;
thread_local int recordings = 0;  // that this thread began

// Never destroyed: contexts may live until the process ends.
std::vector<Stream*>& streams() {
  static auto& all = *new std::vector<Stream*>;
  return all;
}

const std::vector<std::string>& arch_of_each_device() {
  return archs("gfx942:sramecc+:xnack-");
}
const std::string& arch(int device) {
  return arch_of_each_device().at(static_cast<std::size_t>(device));
}

int wave_of(int device) {  // lanes
  return arch(device).rfind("gfx9", 0) == 0 ? 64 : 32;
}

// What waits for the device, or takes memory from it, is not for a thread that records.
int refuse_while_recording() {
  if (recordings == 0) return kSuccess;
  for (Stream* stream : streams()) stream->spoiled = stream->spoiled || stream->recording;
  return kCaptureUnsupported;
}

int run(const Launch& launch) {
  const Module& module = *launch.function->module;
  if (!module.loaded) return kInvalidHandle;
  try {
    for (unsigned block = 0; block < launch.blocks; ++block) {
      const auto order = block % 2 ? host_lanes::Order::backward : host_lanes::Order::forward;
      host_lanes::run_block(
          static_cast<int>(block), static_cast<int>(launch.threads), order,
          [&] { launch.function->call(const_cast<char*>(launch.arguments.data())); },
          wave_of(module.device));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host device: %s\n", error.what());
    return kLaunchFailure;
  }
  return kSuccess;
}

}  // namespace

#define HIP extern "C" __attribute__((visibility("default"))) int
#define LOCKED const std::scoped_lock lock(mutex)

HIP hipInit(unsigned) {
  return kSuccess;
}
HIP hipRuntimeGetVersion(int* version) {
  *version = 70000000;
  return kSuccess;
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorString(int) {
  return "as the host device says";
}
HIP hipGetDeviceCount(int* count) {
  *count = static_cast<int>(arch_of_each_device().size());
  return kSuccess;
}
HIP hipDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "emulated by host code");
  return kSuccess;
}
HIP hipDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 33;
  return kSuccess;
}
HIP hipDeviceGetAttribute(int* value, int which, int device) {
  constexpr int kMultiprocessors = 63, kSharedPerBlock = 74, kWarpSize = 87;
  *value = which == kMultiprocessors  ? 4
           : which == kSharedPerBlock ? 65536
           : which == kWarpSize       ? wave_of(device)
                                      : 0;
  return kSuccess;
}
HIP hipGetDevicePropertiesR0600(char* properties, int device) {
  constexpr std::size_t kArchName = 1160;
  std::strcpy(properties + kArchName, arch(device).c_str());
  return kSuccess;
}
HIP hipGetDevice(int* device) {
  *device = current;
  return kSuccess;
}
HIP hipSetDevice(int device) {
  current = device;
  return kSuccess;
}

HIP hipModuleLoadData(Module** module, const void* image) {
  LOCKED;
  if (const int refused = refuse_while_recording()) return refused;
  return load_module(module, image, current, arch(current));
}
HIP hipModuleUnload(Module* module) {
  LOCKED;
  return unload_module(module);
}
HIP hipModuleGetFunction(Function** function, Module* module, const char* name) {
  LOCKED;
  return find_function(function, module, name);
}
HIP hipModuleLaunchKernel(Function* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                          unsigned threads, unsigned threads_y, unsigned threads_z, unsigned,
                          Stream* stream, void** parameters, void** extra) {
  LOCKED;
  if (blocks == 0 || blocks_y * blocks_z * threads_y * threads_z != 1 || extra) {
    return kInvalidValue;
  }
  if (function->module->device != current || (stream && stream->device != current)) {
    return kInvalidContext;
  }
  const char* const arguments = static_cast<const char*>(parameters[0]);
  Launch launch = {function, blocks, threads, {arguments, arguments + function->sizes.front()}};
  if (stream && stream->recording) {
    stream->recording->launches.push_back(std::move(launch));
    return kSuccess;
  }
  return run(launch);
}

HIP hipMalloc(void** data, std::size_t bytes) {
  LOCKED;
  if (const int refused = refuse_while_recording()) return refused;
  *data = take(bytes, current);
  return *data ? kSuccess : kOutOfMemory;
}
HIP hipFree(void* data) {
  LOCKED;
  if (const int refused = refuse_while_recording()) return refused;
  return give_back(data);
}
HIP hipMallocAsync(void** data, std::size_t bytes, Stream* stream) {
  LOCKED;
  *data = take(bytes, current);
  if (*data && stream && stream->recording) stream->recording->memory.push_back(*data);
  return *data ? kSuccess : kOutOfMemory;
}
HIP hipFreeAsync(void* data, Stream* stream) {
  LOCKED;
  if (stream && stream->recording) return kSuccess;  // the graph's, as long as it lives
  return give_back(data);
}
HIP hipMemset(void* data, int value, std::size_t bytes) {
  LOCKED;
  if (const int refused = refuse_while_recording()) return refused;
  std::memset(data, value, bytes);
  return kSuccess;
}
HIP hipMemcpy(void* to, const void* from, std::size_t bytes, int) {
  LOCKED;
  if (const int refused = refuse_while_recording()) return refused;
  std::memcpy(to, from, bytes);
  return kSuccess;
}
HIP hipDeviceSynchronize() {
  LOCKED;
  return refuse_while_recording();
}

struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};
HIP hipPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  LOCKED;
  int device;
  if (const int failed = find_owner(&device, pointer)) return failed;
  *attributes = {2, device, const_cast<void*>(pointer), nullptr, 0, 0};
  return kSuccess;
}

HIP hipStreamCreateWithFlags(Stream** stream, unsigned) {
  LOCKED;
  *stream = new Stream{current, nullptr};
  streams().push_back(*stream);
  return kSuccess;
}
HIP hipStreamDestroy(Stream* stream) {
  LOCKED;
  std::erase(streams(), stream);
  delete stream;
  return kSuccess;
}
HIP hipStreamSynchronize(Stream* stream) {
  LOCKED;
  return stream && stream->recording ? kCaptureUnsupported : kSuccess;
}
HIP hipStreamIsCapturing(Stream* stream, int* status) {
  LOCKED;
  *status = stream && stream->recording ? (stream->spoiled ? 2 : 1) : 0;
  return kSuccess;
}
HIP hipStreamBeginCapture(Stream* stream, int) {
  LOCKED;
  stream->recording = std::make_unique<Graph>();
  stream->spoiled = false;
  ++recordings;
  return kSuccess;
}
HIP hipStreamEndCapture(Stream* stream, Graph** graph) {
  LOCKED;
  --recordings;
  *graph = stream->recording.release();
  return stream->spoiled ? kCaptureInvalidated : kSuccess;
}
// The graph itself is what is launched.
HIP hipGraphInstantiateWithFlags(Graph** ready, Graph* graph, unsigned long long) {
  *ready = graph;
  return kSuccess;
}
HIP hipGraphLaunch(Graph* graph, Stream*) {
  LOCKED;
  for (const Launch& launch : graph->launches) {
    if (const int failed = run(launch)) return failed;
  }
  return kSuccess;
}
HIP hipGraphExecDestroy(Graph* graph) {
  LOCKED;
  for (void* data : graph->memory) give_back(data);
  delete graph;
  return kSuccess;
}

HIP hipEventCreate(void** event) {
  *event = nullptr;
  return kSuccess;
}
HIP hipEventRecord(void*, Stream*) {
  return kSuccess;
}
HIP hipEventSynchronize(void*) {
  return kSuccess;
}
HIP hipEventElapsedTime(float* ms, void*, void*) {
  *ms = 1.0f;
  return kSuccess;
}
HIP hipEventDestroy(void*) {
  return kSuccess;
}
