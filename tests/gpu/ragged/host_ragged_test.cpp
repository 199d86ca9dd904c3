// The AMD kernel texts as host code on ragged, cached and paged calls, meant for AddressSanitizer
// and UndefinedBehaviorSanitizer: the cases of the numerics tests, and numbers that cannot be
// right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpu/host_call.h"
#include "numerics/ragged_case.h"

namespace hipflash::testing {
namespace {

struct RaggedPairing {
  const HostKernelFacts* kernel;
  RaggedCase c;
  Split split;
  host_lanes::Order order;
};

bool serves(const HostKernelFacts& kernel, const RaggedCase& c, Split split) {
  return testing::serves(kernel, RaggedData(c).problem(), split) &&
         (kernel.pack_heads || c.heads_q < 6);
}

RaggedCase case_for(const HostKernelFacts& kernel) {
  RaggedCase c;
  c.dtype = static_cast<DType>(kernel.element);
  c.dim = kernel.head_dim ? kernel.head_dim : 27;
  c.value_dim = kernel.value_head_dim ? kernel.value_head_dim : 19;
  c.heads_q = kernel.pack_heads ? 6 : 2;
  c.heads_kv = kernel.pack_heads ? 2 : 1;
  c.form = kernel.paged ? KeyForm::paged : KeyForm::packed;
  c.page_size = 7;
  c.sinks = kernel.sinks;
  return c;
}

std::vector<RaggedCase> cases_for(const HostKernelFacts& kernel) {
  std::vector<RaggedCase> all;
  RaggedCase c = case_for(kernel);
  c.queries = {20, 0, 3, 1};
  c.keys = {45, 0, 50, 12};
  c.causal = true;
  c.gap = 3;
  all.push_back(c);
  c = case_for(kernel);  // keys alone, padded, in slots of their own
  if (!kernel.paged) c.form = KeyForm::cache;
  c.queries = {2, 2, 2};
  c.keys = {64, 0, 90};
  c.packed_q = false;
  c.batch_index = c.left_padding = true;
  c.spare_slots = 1;
  c.page_size = 16;
  all.push_back(c);
  c = case_for(kernel);  // every modifier, a window
  c.queries = {5, 9};
  c.keys = {70, 30};
  c.window = {20, 3};
  c.page_size = 1;
  c.offsets_are_64bit = true;
  c.hints = false;
  if (kernel.bias) {
    c.softcap = 4.0f;
    c.alibi = c.bias = c.mask = true;
  }
  all.push_back(c);
  return all;
}

std::vector<RaggedPairing> pairings() {
  std::vector<RaggedPairing> all;
  for (const HostKernelFacts& kernel : cdna_test::host_kernels()) {
    for (const RaggedCase& c : cases_for(kernel)) {
      for (const Split split : {Split{1, 0}, Split{3, 0}, Split{2, 64}}) {
        if (!serves(kernel, c, split)) continue;
        const auto order =
            all.size() % 2 ? host_lanes::Order::backward : host_lanes::Order::forward;
        all.push_back({&kernel, c, split, order});
      }
    }
  }
  return all;
}

class HostRagged : public ::testing::TestWithParam<RaggedPairing> {};

TEST_P(HostRagged, AgreesWithFloat64) {
  const RaggedPairing& p = GetParam();
  SCOPED_TRACE(::testing::Message() << p.c << ", " << p.split.parts << " splits");
  RaggedData data(p.c);
  HostCall call(*p.kernel, data, p.split);
  EXPECT_EQ(call.run(p.order), 0);
  const verify::Verdict verdict = data.verdict();
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  EXPECT_TRUE(data.untouched());
}

INSTANTIATE_TEST_SUITE_P(Amd, HostRagged, ::testing::ValuesIn(pairings()),
                         [](const ::testing::TestParamInfo<RaggedPairing>& info) {
                           return info.param.kernel->name + "_" + std::to_string(info.index);
                         });

// A sequence whose numbers cannot be right: its rows are NaN, a fault is told, the others are
// right, and no address outside of the tensors is formed.
class HostFaults : public ::testing::TestWithParam<const HostKernelFacts*> {
 protected:
  RaggedCase cache_case() const {
    RaggedCase c = case_for(*GetParam());
    if (!GetParam()->paged) c.form = KeyForm::cache;
    c.queries = {2, 2, 2};
    c.keys = {40, 9, 17};
    c.packed_q = false;
    c.batch_index = c.left_padding = true;
    c.unused = 0.0f;
    return c;
  }

  // `spoil` makes the numbers of sequence 1 wrong; `fault` must be told.
  template <class Spoil>
  void expect_fault(const RaggedCase& c, int fault, Spoil&& spoil) {
    RaggedData good(c), bad(c);
    HostCall(*GetParam(), good, {1, 0}).run(host_lanes::Order::forward);
    HostCall call(*GetParam(), bad, {1, 0});
    spoil(bad);
    EXPECT_EQ(call.run(host_lanes::Order::forward), fault);
    for (const std::int64_t b : {0, 2}) EXPECT_EQ(bad.out_of(b), good.out_of(b));
    const std::vector<float> out = bad.out_of(1), lse = bad.lse_of(1);
    const auto is_nan = [](float x) { return std::isnan(x); };
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), is_nan));
    EXPECT_TRUE(std::all_of(lse.begin(), lse.end(), is_nan));
  }
};

TEST_P(HostFaults, Lengths) {
  for (const int length : {1 << 20, -1}) {
    expect_fault(cache_case(), 2, [&](RaggedData& data) { data.lengths[1] = length; });
  }
  expect_fault(cache_case(), 2, [](RaggedData& data) { data.padding[1] = data.lengths[1] + 1; });
}

TEST_P(HostFaults, Slots) {
  for (const int slot : {3, -1, 1 << 30}) {
    expect_fault(cache_case(), 3, [&](RaggedData& data) { data.slots[1] = slot; });
  }
}

TEST_P(HostFaults, Pages) {
  if (!GetParam()->paged) GTEST_SKIP() << "keys are not in pages";
  for (const int page : {1 << 20, -1}) {
    expect_fault(cache_case(), 4, [&](RaggedData& data) {
      data.table[static_cast<std::size_t>(data.slots[1] * data.options.paged.row_stride + 1)] =
          page;
    });
  }
}

TEST_P(HostFaults, Offsets) {
  if (GetParam()->paged) GTEST_SKIP() << "keys in pages have no offsets";
  RaggedCase c = case_for(*GetParam());
  c.queries = {4, 4, 4};
  c.keys = {10, 10, 10};
  RaggedData bad(c);
  HostCall call(*GetParam(), bad, {1, 0});
  bad.cu_q[3] = 1 << 20;  // of the last sequence alone
  bad.cu_k[1] = 1 << 20;  // of the first two
  EXPECT_EQ(call.run(host_lanes::Order::forward), 1);
  for (const float x : bad.out_of(0)) EXPECT_TRUE(std::isnan(x));
  for (const float x : bad.lse_of(0)) EXPECT_TRUE(std::isnan(x));
}

std::vector<const HostKernelFacts*> all_kernels() {
  std::vector<const HostKernelFacts*> all;
  for (const HostKernelFacts& kernel : cdna_test::host_kernels()) all.push_back(&kernel);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Amd, HostFaults, ::testing::ValuesIn(all_kernels()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace hipflash::testing
