// The CDNA kernel text as host code, meant for AddressSanitizer and UndefinedBehaviorSanitizer:
// every case that a host build can serve. Lanes run in one order or the other, so that a missing
// barrier shows.
#include <gtest/gtest.h>

#include "host_registry.h"
#include "problem.h"

namespace cdna_test {

std::vector<HostKernelFacts>& host_kernels() {
  static std::vector<HostKernelFacts> all;
  return all;
}

namespace {

bool serves(const HostKernelFacts& kernel, const Case& c) {
  const Needs need = needs(c);
  return kernel.window_left >= need.window_left && kernel.window_right >= need.window_right &&
         kernel.softcap >= need.softcap && kernel.alibi >= need.alibi && kernel.bias >= need.bias &&
         kernel.mask >= need.mask && kernel.split_keys >= need.split_keys &&
         kernel.aligned <= need.aligned;
}

void run(const HostKernelFacts& kernel, const hipflash::AttentionArgs& args,
         host_lanes::Order order) {
  const int tiles = (args.seq_q + kernel.queries - 1) / kernel.queries;
  const int blocks = tiles * args.heads_q * args.batch * args.splits;
  for (int block = 0; block < blocks; block++) {
    host_lanes::run_block(block, kernel.threads, order, [&] { kernel.forward(&args); });
  }
  if (args.splits == 1) return;
  const int elements = args.batch * args.heads_q * args.seq_q * args.value_head_dim;
  for (int block = 0; block * 256 < elements; block++) {
    host_lanes::run_block(block, 256, order, [&] { kernel.merge(&args); });
  }
}

struct Pairing {
  const HostKernelFacts* kernel;
  Case c;
  int head_dim, value_dim;
  host_lanes::Order order;
};

std::vector<Pairing> pairings() {
  std::vector<Pairing> all;
  const auto add = [&](const HostKernelFacts& kernel, const Case& c, int head_dim, int value_dim) {
    const auto order = all.size() % 2 ? host_lanes::Order::backward : host_lanes::Order::forward;
    all.push_back({&kernel, c, head_dim, value_dim, order});
  };
  for (const HostKernelFacts& kernel : host_kernels()) {
    for (const Case& c : cases()) {
      if (!serves(kernel, c)) continue;
      if (kernel.head_dim) {
        add(kernel, c, kernel.head_dim, kernel.value_head_dim);
      } else {  // head dims from the arguments
        add(kernel, c, 59, 33);
      }
    }
  }
  return all;
}

class HostBackend : public ::testing::TestWithParam<Pairing> {};

TEST_P(HostBackend, AgreesWithFloat64) {
  const Pairing& p = GetParam();
  Problem problem(p.c, static_cast<hipflash::ElementType>(p.kernel->element), p.head_dim,
                  p.value_dim);
  run(*p.kernel, problem.args(), p.order);
  EXPECT_EQ(problem.fault(), "");
}

INSTANTIATE_TEST_SUITE_P(Cdna, HostBackend, ::testing::ValuesIn(pairings()),
                         [](const ::testing::TestParamInfo<Pairing>& info) {
                           return info.param.kernel->name + "_" + info.param.c.name + "_d" +
                                  std::to_string(info.param.head_dim) + "_" +
                                  std::to_string(info.param.value_dim);
                         });

}  // namespace
}  // namespace cdna_test
