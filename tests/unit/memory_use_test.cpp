// What a call takes beyond its inputs and outputs, by the memory that the kernel of Linux counts.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "hipflash/attention.h"

namespace hipflash {
namespace {

// A line of /proc/self/status in bytes.
std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == name + ":") {
      std::int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return -1;
}

// From now on VmHWM is the peak since now.
bool restart_peak() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

TEST(MemoryUse, IsUnderFourMegabytesPerThreadAtAnyLength) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  constexpr int kThreads = 2;
  ContextOptions settings;
  settings.threads = kThreads;
  Context ctx(DeviceId{}, settings);
  for (const bool causal : {false, true}) {
    for (const std::int64_t seq : {256, 4096, 16384}) {
      const std::int64_t heads = 2, dim = 32;
      std::vector<float> q(static_cast<std::size_t>(seq * heads * dim), 0.5f), k = q, v = q,
                                                                               out = q;
      const auto tensor = [&](std::vector<float>& data) {
        return Tensor::bshd(data.data(), DType::f32, 1, seq, heads, dim);
      };
      AttentionOptions options;
      options.causal = causal;
      const Problem problem = make_problem(tensor(q), tensor(k), tensor(v), tensor(out), options);
      const Plan plan = ctx.plan(problem);  // compilers take memory; runs must not
      if (!restart_peak()) GTEST_SKIP() << "no /proc/self/clear_refs";
      const std::int64_t before = status_bytes("VmRSS");
      plan.run(make_pointers(tensor(q), tensor(k), tensor(v), tensor(out), options));
      const std::int64_t taken = status_bytes("VmHWM") - before;
      RecordProperty("taken_" + std::to_string(seq), std::to_string(taken));
      EXPECT_GE(before, 1);
      EXPECT_LE(taken, kThreads * (std::int64_t{4} << 20)) << "seq " << seq << " causal " << causal;
    }
  }
}

}  // namespace
}  // namespace hipflash
