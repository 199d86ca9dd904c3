// A HIP runtime without hardware, for what the library does around kernels: two devices, gfx942 and
// gfx90a, whose memory is the host's and whose kernels do what a test says. It is linked under the
// name that the library opens, so the whole hip platform runs on it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace stub_hip {

// The memory of a device, as hipMalloc gives it.
void* allocate(int device, std::size_t bytes);
void release(void* memory);

// What kernels do, by the name of the entry point; at first nothing.
using Kernel = std::function<void(const std::string& entry, void** parameters)>;
void set_kernel(Kernel kernel);

std::size_t launches();        // outside of recordings, replays included
std::size_t loaded_modules();  // now
std::size_t early_unloads();   // modules that went while work launched from them was not waited for
std::size_t synchronizations();  // of a device

void* make_stream(int device);
void destroy_stream(void* stream);
void begin_capture(void* stream);
int end_capture(void* stream);  // a graph
// False if a kernel of the graph, or the word that it reports faults in, is gone.
bool replay(int graph);
bool capture_broken(void* stream);  // by a call that a recording does not allow

}  // namespace stub_hip
