// Modules of the real hip platform: devices of different architectures in one process, many
// threads, many loads.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "api/on_stub.h"
#include "jit/code_provider.h"
#include "platform/gpu/gpu_device.h"

namespace hipflash::testing {
namespace {

Problem problem_of(std::int64_t head_dim) {
  return stub_problem(100, head_dim);
}

// A cache on disk that several contexts share.
class Modules : public OnStub {
 protected:
  void SetUp() override {
    OnStub::SetUp();
    std::string name = ::testing::TempDir() + "hipflash-modules-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    options_.cache_dir = name;
  }
  void TearDown() override {
    std::filesystem::remove_all(options_.cache_dir);
    OnStub::TearDown();
  }
  ContextOptions options_;
};

// The stand-in's devices are a gfx942 and a gfx90a, and refuse each other's code.
TEST_F(Modules, TwoArchitecturesInOneProcess) {
  for (int round = 0; round < 2; ++round) {  // compiled, then from the shared cache
    Context first({Platform::hip, 0}, options_), second({Platform::hip, 1}, options_);
    EXPECT_NE(first.device().arch, second.device().arch);
    for (const std::int64_t dim : {64, 128}) {
      const Plan plans[] = {first.plan(problem_of(dim)), second.plan(problem_of(dim))};
      EXPECT_NE(plans[0].explanation().key, plans[1].explanation().key);
      for (int device = 0; device < 2; ++device) {
        EXPECT_EQ(plans[device].tier(), round == 0 ? Tier::compiled : Tier::disk);
        const StubMemory memory(1 << 16, device), out(1 << 16, device);
        TensorPointers t;
        t.q = t.k = t.v = memory.data();
        t.out = out.data();
        const std::size_t before = stub_hip::launches();
        plans[device].run(t);
        EXPECT_EQ(stub_hip::launches(), before + 1);
      }
    }
  }
}

TEST_F(Modules, SixteenThreadsLoadEachOnceAndRun) {
  const std::size_t before = stub_hip::loaded_modules();
  Context first({Platform::hip, 0}, options_), second({Platform::hip, 1}, options_);
  const StubMemory memories[] = {StubMemory(1 << 16, 0), StubMemory(1 << 16, 1)};
  const StubMemory outs[] = {StubMemory(1 << 16, 0), StubMemory(1 << 16, 1)};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < 40; ++i) {
          const int device = (t + i) % 2;
          const std::int64_t dim = std::vector<std::int64_t>{32, 64, 96, 128}[(t + i / 2) % 4];
          TensorPointers p;
          p.q = p.k = p.v = memories[device].data();
          p.out = outs[device].data();
          (device ? second : first).plan(problem_of(dim)).run(p);
        }
      } catch (const std::exception&) {
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(stub_hip::loaded_modules(), before + 8);  // four kernels on each device
  EXPECT_EQ(first.cache_stats().compiles, 4u);
  EXPECT_EQ(second.cache_stats().compiles, 4u);
}

TEST_F(Modules, SixtyFiveThousandLoadsLeakNothing) {
  const std::size_t before = stub_hip::loaded_modules();
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  platform::GpuDevice device(platform::Kind::hip, 0);
  jit::CodeObject code;
  const std::string text = "stub code of gfx942";
  for (const char c : text + '\0') code.bytes.push_back(static_cast<std::byte>(c));
  const auto files = open_files();
  for (int i = 0; i < 65000; ++i) (void)device.load(code);
  EXPECT_EQ(stub_hip::loaded_modules(), before);
  EXPECT_EQ(open_files(), files);
}

}  // namespace
}  // namespace hipflash::testing
