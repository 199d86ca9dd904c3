// The library in the processes of real programs: forks, threads, many loads, a temporary folder
// from which nothing can be run.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "hipflash/attention.h"
#include "jit/code_provider.h"
#include "plan/cpu_plan.h"
#include "plan/dense_problem.h"
#include "platform/cpu/cpu_device.h"
#include "platform/cpu/isa.h"

namespace hipflash {
namespace {

int exit_status(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, ForkBeforeAndAfterTheFirstCall) {
  EXPECT_EQ(exit_status("'" HIPFLASH_BINARY_DIR "/tests/fork_first_program'"), 0);
}

TEST(Process, NothingRunsFromTheTemporaryFolder) {
  std::string folder = ::testing::TempDir() + "hipflash-noexec-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string make = "unshare -rm sh -c 'set -e; d=\"" + folder +
                           "\"; "
                           "mount -t tmpfs -o noexec tmpfs \"$d\"; ";
  if (exit_status(make + "' 2>/dev/null") != 0) {
    std::filesystem::remove(folder);
    GTEST_SKIP() << "no file system can be mounted";
  }
  // The cache lies there too, so that the kernel is compiled, stored and loaded.
  EXPECT_EQ(exit_status(make + "printf \"#!/bin/sh\\n\" > \"$d/x\"; chmod +x \"$d/x\"; ! \"$d/x\" "
                               "2>/dev/null; export TMPDIR=\"$d\" HIPFLASH_CACHE_DIR=\"$d/cache\"; "
                               "exec \"" HIPFLASH_BINARY_DIR "/tests/fork_first_program\" once'"),
            0);
  std::filesystem::remove(folder);
}

// A context, cold, that sixteen threads use at once.
TEST(Process, SixteenThreadsLoadAndRun) {
  ContextOptions options;
  options.use_disk_cache = false;
  options.threads = 2;
  Context context(DeviceId{}, options);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      std::vector<float> q(3 * 64, 0.5f), k(5 * 64, 0.25f), v(5 * 64, 2.0f), out(3 * 64, NAN);
      const auto view = [](std::vector<float>& data, std::int64_t seq) {
        return Tensor::bshd(data.data(), DType::f32, 1, seq, 1, 64);
      };
      for (int i = 0; i < 50; ++i) {
        std::fill(out.begin(), out.end(), NAN);
        attention_forward(context, view(q, 3), view(k, 5), view(v, 5), view(out, 3));
        for (const float x : out) {
          if (!(std::abs(x - 2.0f) < 1e-6f)) return;
        }
      }
      ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
  EXPECT_EQ(context.cache_stats().compiles, 1u);
}

// Real shared objects, which the dynamic loader must give back.
TEST(Process, LoadsOfKernelsLeakNothing) {
  const Problem p = plan::dense_problem({DType::f32, 1, 1, 1, 3, 5, 64, false});
  platform::CpuDevice device(2, platform::choose_isa(""));
  jit::CodeProvider provider(jit::provider_options_from_settings());
  const jit::CodeObject code = provider.get(plan::plan_cpu(p, device.isa(), 2).spec);
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  for (int i = 0; i < 100; ++i) (void)device.load(code);
  const auto files = open_files(), mapped = mappings();
  for (int i = 0; i < 2000; ++i) (void)device.load(code);
  EXPECT_EQ(open_files(), files);
  EXPECT_LE(mappings(), mapped + 8);
}

}  // namespace
}  // namespace hipflash
