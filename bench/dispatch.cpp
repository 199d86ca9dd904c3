// Host cost of calling attention, on a problem so small that little else is left: one query, two
// keys, one head of dimension 8.
#include <benchmark/benchmark.h>

#include "bench/tensors.h"
#include "hipflash/attention.h"
#include "hipflash/c.h"

namespace hipflash::bench {
namespace {

struct Tiny {
  RandomTensor q{DType::f32, 1, 1, 1, 8, 1}, k{DType::f32, 1, 1, 2, 8, 2},
      v{DType::f32, 1, 1, 2, 8, 3}, out{DType::f32, 1, 1, 1, 8, 4};
  Context ctx{DeviceId{}};
};

void plan_run(benchmark::State& state) {
  Tiny t;
  const Plan plan = t.ctx.plan(make_problem(t.q.view(), t.k.view(), t.v.view(), t.out.view()));
  const TensorPointers pointers = make_pointers(t.q.view(), t.k.view(), t.v.view(), t.out.view());
  for (auto iteration : state) {
    (void)iteration;
    plan.run(pointers);
  }
}
BENCHMARK(plan_run);

void one_step(benchmark::State& state) {
  Tiny t;
  for (auto iteration : state) {
    (void)iteration;
    attention_forward(t.ctx, t.q.view(), t.k.view(), t.v.view(), t.out.view());
  }
}
BENCHMARK(one_step);

hipflash_tensor c_view(const Tensor& t) {
  hipflash_tensor c = HIPFLASH_TENSOR_INIT;
  c.data = t.data;
  c.dtype = static_cast<std::int32_t>(t.dtype);
  c.batch = t.batch;
  c.seq = t.seq;
  c.heads = t.heads;
  c.dim = t.dim;
  c.stride_batch = t.stride.batch;
  c.stride_seq = t.stride.seq;
  c.stride_head = t.stride.head;
  return c;
}

void one_step_c(benchmark::State& state) {
  Tiny t;
  hipflash_context* ctx = nullptr;
  if (hipflash_context_create("cpu", nullptr, &ctx) != HIPFLASH_OK) {
    state.SkipWithError(hipflash_last_error());
    return;
  }
  const hipflash_tensor q = c_view(t.q.view()), k = c_view(t.k.view()), v = c_view(t.v.view()),
                        out = c_view(t.out.view());
  for (auto iteration : state) {
    (void)iteration;
    hipflash_attention_forward(ctx, &q, &k, &v, &out, nullptr, nullptr);
  }
  hipflash_context_destroy(ctx);
}
BENCHMARK(one_step_c);

}  // namespace
}  // namespace hipflash::bench

BENCHMARK_MAIN();
