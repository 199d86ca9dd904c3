// What the CUDA driver of the host device says after a kernel's fault: as CUDA's, from then on
// every call fails, whichever call was the one for which the kernel ran.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "gpu/host_device/cuda_threads.h"

extern "C" {
int cuCtxSetCurrent(void* context);
int cuCtxSynchronize();
int cuModuleLoadData(void** module, const void* image);
int cuModuleUnload(void* module);
int cuModuleGetFunction(void** function, void* module, const char* name);
int cuLaunchKernel(void* function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                   unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
                   void* stream, void** parameters, void** extra);
int cuMemAlloc_v2(std::uintptr_t* at, std::size_t bytes);
int cuMemFree_v2(std::uintptr_t at);
}

namespace {

constexpr int kLaunchFailure = 719;  // CUDA_ERROR_LAUNCH_FAILED
int ran = 0;

int launch(void* function, void (*thread)()) {
  void* parameters[] = {&thread};
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
}

TEST(CudaDriver, AFaultIsToldByAllLaterCalls) {
  std::ifstream file(HOST_GPU_IMAGE, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(image.empty());
  ASSERT_EQ(cuCtxSetCurrent(reinterpret_cast<void*>(std::uintptr_t{1})), 0);  // device 0
  void *module = nullptr, *function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, image.data()), 0);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "call"), 0);
  std::uintptr_t memory = 0, more = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), 0);
  ASSERT_EQ(launch(function, [] { ran++; }), 0);
  EXPECT_EQ(cuCtxSynchronize(), 0);
  EXPECT_EQ(ran, 1);

  ASSERT_EQ(launch(function, [] { hipflash::host::fail("a rule"); }), 0);
  EXPECT_EQ(cuMemFree_v2(memory), kLaunchFailure);  // frees all the same, which LeakSanitizer sees
  EXPECT_EQ(cuMemAlloc_v2(&more, 64), kLaunchFailure);
  EXPECT_EQ(launch(function, [] { ran++; }), kLaunchFailure);
  EXPECT_EQ(cuModuleUnload(module), kLaunchFailure);
  EXPECT_EQ(cuCtxSynchronize(), kLaunchFailure);
  EXPECT_EQ(ran, 1);
}

}  // namespace
