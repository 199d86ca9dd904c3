#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "api/stub_hip/stub_hip.h"
#include "common/append_args.h"
#include "common/attention_args.h"

namespace stub_hip {
namespace {

constexpr int kDevices = 2, kUnknown = 1;
constexpr const char* kArchs[kDevices] = {"gfx942:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"};

struct Module {
  int device = 0;
  bool busy = false;  // launched from, and not waited for
};
struct Function {
  int module = 0;
  std::string entry;
};
struct Node {
  int module = 0;
  const void* fault = nullptr;
};
struct Stream {
  int device = 0;
  bool recording = false, broken = false;
  std::vector<Node> nodes;
};
struct Block {
  int device = 0;
  std::size_t bytes = 0;
};

struct State {
  std::recursive_mutex mutex;
  std::map<char*, Block> memory;
  std::map<int, Module> modules;
  std::vector<Function*> functions;  // handles stay valid
  std::set<Stream*> streams;
  std::vector<std::vector<Node>> graphs;
  Kernel kernel;
  int next_module = 1;
  std::size_t launches = 0, early_unloads = 0, synchronizations = 0;
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

thread_local int current = 0;

// The block that holds the address, else null.
const Block* block_at(const void* pointer) {
  auto& memory = state().memory;
  const auto at = static_cast<char*>(const_cast<void*>(pointer));
  auto after = memory.upper_bound(at);
  if (after == memory.begin()) return nullptr;
  --after;
  return at < after->first + std::max<std::size_t>(after->second.bytes, 1) ? &after->second
                                                                           : nullptr;
}

// Calls that wait for a device, or may, break what is being recorded on it.
bool breaks_recordings(int device) {
  bool any = false;
  for (Stream* stream : state().streams) {
    if (!stream->recording || stream->device != device) continue;
    stream->broken = any = true;
  }
  return any;
}

int wait_for(int device) {
  if (breaks_recordings(device)) return 900;
  ++state().synchronizations;
  for (auto& [handle, module] : state().modules) {
    if (module.device == device) module.busy = false;
  }
  return 0;
}

const void* fault_word(const std::string& entry, void** parameters) {
  if (entry == "append_kv") {
    return static_cast<const hipflash::AppendArgs*>(parameters[0])->fault;
  }
  if (entry == "merge_partials") return nullptr;
  return static_cast<const hipflash::AttentionArgs*>(parameters[0])->fault;
}

}  // namespace

void* allocate(int device, std::size_t bytes) {
  const std::scoped_lock lock(state().mutex);
  auto* const memory = static_cast<char*>(::operator new(std::max<std::size_t>(bytes, 1)));
  state().memory[memory] = {device, bytes};
  return memory;
}
void release(void* memory) {
  const std::scoped_lock lock(state().mutex);
  if (state().memory.erase(static_cast<char*>(memory)) == 1) ::operator delete(memory);
}
void set_kernel(Kernel kernel) {
  const std::scoped_lock lock(state().mutex);
  state().kernel = std::move(kernel);
}
std::size_t launches() {
  const std::scoped_lock lock(state().mutex);
  return state().launches;
}
std::size_t loaded_modules() {
  const std::scoped_lock lock(state().mutex);
  return state().modules.size();
}
std::size_t early_unloads() {
  const std::scoped_lock lock(state().mutex);
  return state().early_unloads;
}
std::size_t synchronizations() {
  const std::scoped_lock lock(state().mutex);
  return state().synchronizations;
}

void* make_stream(int device) {
  const std::scoped_lock lock(state().mutex);
  auto* const stream = new Stream;
  stream->device = device;
  state().streams.insert(stream);
  return stream;
}
void destroy_stream(void* handle) {
  const std::scoped_lock lock(state().mutex);
  auto* const stream = static_cast<Stream*>(handle);
  state().streams.erase(stream);
  delete stream;
}
void begin_capture(void* handle) {
  const std::scoped_lock lock(state().mutex);
  auto* const stream = static_cast<Stream*>(handle);
  stream->recording = true;
  stream->broken = false;
  stream->nodes.clear();
}
int end_capture(void* handle) {
  const std::scoped_lock lock(state().mutex);
  auto* const stream = static_cast<Stream*>(handle);
  stream->recording = false;
  state().graphs.push_back(std::move(stream->nodes));
  return static_cast<int>(state().graphs.size()) - 1;
}
bool capture_broken(void* handle) {
  const std::scoped_lock lock(state().mutex);
  return static_cast<Stream*>(handle)->broken;
}
bool replay(int graph) {
  const std::scoped_lock lock(state().mutex);
  for (const Node& node : state().graphs[static_cast<std::size_t>(graph)]) {
    if (!state().modules.contains(node.module)) return false;
    if (node.fault && !block_at(node.fault)) return false;
    ++state().launches;
  }
  return true;
}

extern "C" {

int hipInit(unsigned) {
  return 0;
}
int hipRuntimeGetVersion(int* version) {
  *version = 7 * 10000000;
  return 0;
}
const char* hipGetErrorString(int) {
  return "an error of the stand-in";
}
int hipGetDeviceCount(int* count) {
  *count = kDevices;
  return 0;
}
int hipDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "a stand-in", static_cast<std::size_t>(size));
  return 0;
}
int hipDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 34;
  return 0;
}
int hipDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 63:  // compute units
      *value = 304;
      return 0;
    case 74:  // shared memory of a block
      *value = 65536;
      return 0;
    case 87:  // lanes of a wave
      *value = 64;
      return 0;
    default:
      *value = 0;
      return 0;
  }
}
int hipGetDevicePropertiesR0600(char* properties, int device) {
  std::strcpy(properties + 1160, kArchs[device]);
  return 0;
}
int hipGetDevice(int* device) {
  *device = current;
  return 0;
}
int hipSetDevice(int device) {
  current = device;
  return 0;
}

int hipModuleLoadData(void** module, const void* code) {
  const std::scoped_lock lock(state().mutex);
  const std::string text = static_cast<const char*>(code);
  // Code of another architecture is refused, as a real runtime does.
  const std::string arch = std::string(kArchs[current]).substr(0, 6);
  if (text.find("stub code") != 0 || text.find(arch) == std::string::npos) return kUnknown;
  const int handle = state().next_module++;
  state().modules[handle] = {current, false};
  *module = reinterpret_cast<void*>(static_cast<std::intptr_t>(handle));
  return 0;
}
int hipModuleUnload(void* module) {
  const std::scoped_lock lock(state().mutex);
  const auto at = state().modules.find(static_cast<int>(reinterpret_cast<std::intptr_t>(module)));
  if (at == state().modules.end()) return kUnknown;
  if (at->second.busy) ++state().early_unloads;
  state().modules.erase(at);
  return 0;
}
int hipModuleGetFunction(void** function, void* module, const char* name) {
  const std::scoped_lock lock(state().mutex);
  state().functions.push_back(
      new Function{static_cast<int>(reinterpret_cast<std::intptr_t>(module)), name});
  *function = state().functions.back();
  return 0;
}
int hipModuleLaunchKernel(void* handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void* stream_handle, void** parameters, void**) {
  const std::scoped_lock lock(state().mutex);
  const auto& function = *static_cast<Function*>(handle);
  const auto module = state().modules.find(function.module);
  if (module == state().modules.end() || module->second.device != current) return kUnknown;
  auto* const stream = static_cast<Stream*>(stream_handle);
  if (stream && stream->recording) {
    stream->nodes.push_back({function.module, fault_word(function.entry, parameters)});
    return 0;
  }
  module->second.busy = true;
  ++state().launches;
  if (state().kernel) state().kernel(function.entry, parameters);
  return 0;
}
int hipStreamIsCapturing(void* stream, int* status) {
  const std::scoped_lock lock(state().mutex);
  *status = static_cast<Stream*>(stream)->recording ? 1 : 0;
  return 0;
}

struct Attributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};
int hipPointerGetAttributes(Attributes* attributes, const void* pointer) {
  const std::scoped_lock lock(state().mutex);
  const Block* const block = block_at(pointer);
  if (!block) return kUnknown;
  *attributes = {2, block->device, const_cast<void*>(pointer), nullptr, 0, 0};
  return 0;
}
int hipMalloc(void** memory, std::size_t bytes) {
  *memory = allocate(current, bytes);
  return 0;
}
int hipFree(void* memory) {
  const std::scoped_lock lock(state().mutex);
  const int waited = wait_for(current);
  release(memory);
  return waited;
}
int hipMallocAsync(void** memory, std::size_t bytes, void*) {
  return hipMalloc(memory, bytes);
}
int hipFreeAsync(void* memory, void*) {
  release(memory);
  return 0;
}
int hipMemset(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
  return 0;
}
int hipMemcpy(void* to, const void* from, std::size_t bytes, int) {
  std::memcpy(to, from, bytes);
  return 0;
}
int hipDeviceSynchronize() {
  const std::scoped_lock lock(state().mutex);
  return wait_for(current);
}
int hipEventCreate(void** event) {
  *event = nullptr;
  return 0;
}
int hipEventRecord(void*, void*) {
  return 0;
}
int hipEventSynchronize(void*) {
  return 0;
}
int hipEventElapsedTime(float* ms, void*, void*) {
  *ms = 1.0f;
  return 0;
}
int hipEventDestroy(void*) {
  return 0;
}

}  // extern "C"
}  // namespace stub_hip
