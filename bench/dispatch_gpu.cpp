// Host cost of calling attention on a GPU beside the runtime's own launch call of the same kernel.
//
//   dispatch_gpu [cuda:0|hip:0]
//
// Each sample enqueues 200 calls and waits; the table has medians of the enqueueing time per call,
// the three kinds interleaved.
#include <cstdio>
#include <string>
#include <vector>

#include "bench/peak.h"
#include "bench/tensors.h"
#include "hipflash/attention.h"
#include "jit/code_provider.h"
#include "plan/gpu_plan.h"
#include "platform/gpu/driver.h"

namespace hipflash::bench {
namespace {

constexpr int kCalls = 200, kSamples = 51;

class OnDevice {
 public:
  OnDevice(platform::GpuDriver& driver, int ordinal, const Tensor& host)
      : driver_(driver), ordinal_(ordinal), view_(host) {
    const auto bytes = static_cast<std::size_t>(host.batch * host.seq * host.heads * host.dim) *
                       size_of(host.dtype);
    view_.data = driver.allocate(ordinal, bytes);
    driver.copy_to_device(ordinal, view_.data, host.data, bytes);
  }
  ~OnDevice() { driver_.release(ordinal_, view_.data); }
  const Tensor& view() const { return view_; }

 private:
  platform::GpuDriver& driver_;
  int ordinal_;
  Tensor view_;
};

template <class Call>
double microseconds(platform::GpuDriver& driver, int ordinal, Call&& call) {
  driver.synchronize(ordinal);
  const double start = wall_seconds();
  for (int i = 0; i < kCalls; ++i) call();
  const double time = wall_seconds() - start;
  driver.synchronize(ordinal);
  return 1e6 * time / kCalls;
}

void measure(DeviceId id, DType dtype) {
  const auto kind = id.platform == Platform::hip ? platform::Kind::hip : platform::Kind::cuda;
  platform::GpuDriver& driver = platform::gpu_driver(kind);
  const RandomTensor host(dtype, 1, 4, 128, 64, 1);
  const OnDevice q(driver, id.ordinal, host.view()), k(driver, id.ordinal, host.view()),
      v(driver, id.ordinal, host.view()), out(driver, id.ordinal, host.view());
  Context ctx(id);
  const Problem problem = make_problem(q.view(), k.view(), v.view(), out.view());
  const Plan plan = ctx.plan(problem);
  const TensorPointers pointers = make_pointers(q.view(), k.view(), v.view(), out.view());

  // The same launch without the library around it. The wgmma family's maps are not made here, so
  // its bare launch passes room for them instead and runs no block.
  const plan::KernelPlan bare = plan::plan_gpu(problem, driver.facts(id.ordinal));
  const auto& launch = std::get<platform::GpuLaunch>(bare.launch);
  jit::CodeProvider provider(jit::provider_options_from_settings());
  void* const module = driver.load_module(id.ordinal, provider.get(bare.spec).bytes);
  void* const function = driver.function(module, "attention_forward");
  if (launch.forward.shared_bytes > 48 * 1024) {
    driver.allow_shared(function, launch.forward.shared_bytes);
  }
  AttentionArgs args = bare.args;
  args.q = pointers.q;
  args.k = pointers.k;
  args.v = pointers.v;
  args.out = pointers.out;
  if (launch.tensor_maps) args.seq_q = 0;  // no pieces of work: blocks leave at once
  alignas(64) static char maps[3][128] = {};
  void* parameters[] = {&args, maps[0], maps[1], maps[2]};

  std::vector<double> launches, runs, steps;
  for (int i = 0; i < kSamples; ++i) {
    launches.push_back(microseconds(driver, id.ordinal, [&] {
      driver.launch(id.ordinal, function, launch.forward, parameters, {});
    }));
    runs.push_back(microseconds(driver, id.ordinal, [&] { plan.run(pointers); }));
    steps.push_back(microseconds(driver, id.ordinal, [&] {
      attention_forward(ctx, q.view(), k.view(), v.view(), out.view());
    }));
  }
  driver.unload_module(id.ordinal, module);
  std::printf("%s %-28s launch %.2f us, plan.run %.2f (+%.2f), one step %.2f (+%.2f)\n",
              to_string(dtype), bare.spec.family.c_str(), quantile(launches, 0.5),
              quantile(runs, 0.5), quantile(runs, 0.5) - quantile(launches, 0.5),
              quantile(steps, 0.5), quantile(steps, 0.5) - quantile(launches, 0.5));
}

}  // namespace
}  // namespace hipflash::bench

int main(int argc, char** argv) {
  try {
    const hipflash::DeviceId id =
        argc > 1 ? hipflash::parse_device(argv[1]) : hipflash::default_device();
    if (id.platform == hipflash::Platform::cpu) {
      std::puts("no GPU: see bench/dispatch.cpp for the CPU");
      return 0;
    }
    for (const auto dtype : {hipflash::DType::f32, hipflash::DType::f16}) {
      hipflash::bench::measure(id, dtype);
    }
  } catch (const hipflash::Error& error) {
    std::fprintf(stderr, "%s\n%s\n", error.what(), error.log().c_str());
    return 1;
  }
  return 0;
}
