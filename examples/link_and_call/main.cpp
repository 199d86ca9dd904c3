// Attention in ten lines: one sequence of 64 positions, 8 heads of dimension 64.
#include <hipflash/attention.h>

#include <cstdio>
#include <vector>

int main() {
  std::vector<float> q(64 * 8 * 64, 0.5f), k(q), v(q), out(q.size());
  const auto view = [](std::vector<float>& x) {
    return hipflash::Tensor::bshd(x.data(), hipflash::DType::f32, 1, 64, 8, 64);
  };
  hipflash::Context ctx(hipflash::parse_device("cpu"));
  hipflash::AttentionOptions options;
  options.causal = true;
  hipflash::attention_forward(ctx, view(q), view(k), view(v), view(out), options);
  std::printf("out[0] = %g\n", static_cast<double>(out[0]));
  return out[0] == 0.5f ? 0 : 1;  // equal values average to themselves
}
