// Writing past the caches changes no bit: few keys, a call that counts as larger than the caches
// and the same one that does not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "jit/code_provider.h"
#include "numerics/attention_case.h"
#include "plan/cpu_plan.h"
#include "plan/dense_problem.h"
#include "platform/cpu/cpu_device.h"
#include "platform/cpu/isa.h"
#include "verify/convert.h"

namespace hipflash::testing {
namespace {

constexpr std::size_t kLine = 64;

// Elements whose first is at the beginning of a line or `offset` bytes after it.
class Rows {
 public:
  Rows(DType dtype, std::int64_t count, std::size_t offset)
      : bytes_(static_cast<std::size_t>(count) * size_of(dtype)),
        memory_(std::aligned_alloc(kLine, (bytes_ + offset + kLine - 1) / kLine * kLine)),
        data_(static_cast<char*>(memory_.get()) + offset) {
    std::memset(data_, 0xff, bytes_);
  }
  void fill(DType dtype, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const auto count = static_cast<std::int64_t>(bytes_ / size_of(dtype));
    for (std::int64_t i = 0; i < count; ++i) verify::store(dtype, data_, i, normal(random));
  }
  void* data() const { return data_; }
  bool operator==(const Rows& other) const {
    return bytes_ == other.bytes_ && std::memcmp(data_, other.data_, bytes_) == 0;
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<void, Free> memory_;
  char* data_;
};

class Stream : public ::testing::TestWithParam<std::string> {};

TEST_P(Stream, ChangesNoBit) {
  platform::CpuDevice device(2, platform::choose_isa(GetParam()));
  jit::CodeProvider provider(jit::provider_options_from_settings());
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const std::int64_t dim : {64, 80}) {
      Problem problem = plan::dense_problem({dtype, 13, dim == 64 ? 5 : 10, 5, 1, 3, dim, false});
      problem.features.lse = problem.features.sinks = true;
      const plan::KernelPlan plan = plan::plan_cpu(problem, device.isa(), 2);
      const auto module = device.load(provider.get(plan.spec));
      const std::int64_t count = problem.batch * problem.heads_q * dim;
      const std::int64_t keys = problem.batch * problem.heads_kv * problem.seq_k * dim;
      Rows q(dtype, count, 0), k(dtype, keys, 0), v(dtype, keys, 0);
      q.fill(dtype, 1), k.fill(dtype, 2), v.fill(dtype, 3);
      std::vector<float> sinks(static_cast<std::size_t>(problem.heads_q), 0.5f);
      const auto run = [&](const Rows& out, std::vector<float>& lse, long long cache_bytes) {
        auto launch = std::get<platform::CpuLaunch>(plan.launch);
        launch.work.cache_bytes = cache_bytes;
        AttentionArgs args = plan.args;
        args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data();
        args.lse = lse.data(), args.sinks = sinks.data();
        device.prepare(module, launch)->run(std::move(args), {});
      };
      const auto rows = static_cast<std::size_t>(problem.batch * problem.heads_q);
      Rows cached(dtype, count, 0);
      std::vector<float> cached_lse(rows);
      run(cached, cached_lse, 1LL << 40);
      for (const std::size_t offset : {0, 16}) {
        Rows streamed(dtype, count, offset);
        std::vector<float> lse(rows);
        run(streamed, lse, 0);
        EXPECT_TRUE(streamed == cached) << to_string(dtype) << " d" << dim << " at " << offset;
        EXPECT_EQ(lse, cached_lse);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Stream, ::testing::ValuesIn(available_isas()));

}  // namespace
}  // namespace hipflash::testing
