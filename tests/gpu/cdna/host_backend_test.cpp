// The AMD kernel texts as host code on dense calls, meant for AddressSanitizer and
// UndefinedBehaviorSanitizer: small shapes with every tail, mask and feature that a host build can
// serve. Lanes run in one order or the other, so that a missing barrier shows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gpu/host_call.h"
#include "plan/dense_problem.h"

namespace hipflash::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct DenseCase : AttentionCase {
  std::string name;
  float scale_factor = 1.0f;  // of 1/sqrt(head dimension)
  bool unseen_nan = false;    // NaN in K and V where no query looks
  bool key_nan = false;       // NaN in a seen K
  int splits = 1;
};

std::vector<DenseCase> dense_cases() {
  std::vector<DenseCase> all;
  const auto add = [&](const char* name, auto&& change) {
    DenseCase c;
    c.heads_kv = 1;
    c.seq_q = 70;
    c.seq_k = 133;
    c.layout = Layout::bhsd;
    c.name = name;
    change(c);
    all.push_back(c);
  };
  const auto shape = [](DenseCase& c, std::int64_t seq_q, std::int64_t seq_k) {
    c.seq_q = seq_q;
    c.seq_k = seq_k;
  };
  add("full", [](DenseCase&) {});
  add("bshd", [](DenseCase& c) { c.layout = Layout::bshd; });
  add("gaps", [](DenseCase& c) { c.layout = Layout::aligned_gaps; });
  add("odd", [](DenseCase& c) { c.layout = Layout::padded_rows; });
  add("one_key", [&](DenseCase& c) { shape(c, 33, 1), c.batch = 2; });
  add("one_query", [&](DenseCase& c) { shape(c, 1, 100), c.heads_q = 4, c.heads_kv = 2; });
  add("no_keys", [&](DenseCase& c) { shape(c, 40, 0); });
  add("whole_tiles", [&](DenseCase& c) { shape(c, 128, 128), c.heads_kv = 2; });
  add("negative_scale", [](DenseCase& c) { c.scale_factor = -0.7f; });
  add("zero_scale", [](DenseCase& c) { c.scale_factor = 0.0f; });
  add("large_logits", [](DenseCase& c) { c.query_factor = 30.0f; });
  add("small_logits", [](DenseCase& c) { c.query_factor = 0.003f; });
  add("key_nan", [](DenseCase& c) { c.key_nan = true; });
  add("causal", [](DenseCase& c) { c.causal = true; });
  add("causal_empty_rows", [&](DenseCase& c) { shape(c, 100, 37), c.causal = true; });
  add("causal_top_left", [&](DenseCase& c) {
    shape(c, 30, 90), c.causal = c.unseen_nan = true, c.alignment = MaskAlignment::top_left;
  });
  add("window_right", [](DenseCase& c) { c.window.right = 10; });
  add("window_left", [](DenseCase& c) { c.window.left = 20; });
  add("window_both", [&](DenseCase& c) { shape(c, 150, 170), c.window = {33, 5}; });
  add("window_self", [&](DenseCase& c) { shape(c, 150, 130), c.window = {0, 0}; });
  add("softcap", [](DenseCase& c) { c.softcap = 2.0f, c.query_factor = 4.0f; });
  add("alibi", [](DenseCase& c) { c.alibi = true; });
  add("bias", [](DenseCase& c) { c.bias = Cells::full; });
  add("bias_16bit", [](DenseCase& c) { c.bias = Cells::full, c.bias_in_dtype = c.causal = true; });
  add("mask", [](DenseCase& c) { c.mask = Cells::shared_heads, c.unseen_nan = true; });
  add("mask_zero_scale", [](DenseCase& c) { c.mask = Cells::shared_heads, c.scale_factor = 0.0f; });
  add("everything", [](DenseCase& c) {
    c.mask = Cells::shared_heads, c.bias = Cells::full, c.alibi = true;
    c.softcap = 2.0f, c.window = {90, 30}, c.scale_factor = -1.0f;
  });
  add("splits", [&](DenseCase& c) { shape(c, 40, 300), c.splits = 3; });
  add("splits_window",
      [&](DenseCase& c) { shape(c, 40, 300), c.splits = 5, c.window.left = 50, c.causal = true; });
  add("more_splits_than_tiles", [&](DenseCase& c) { shape(c, 5, 60), c.splits = 4; });
  return all;
}

// The case's problem but for its strides.
Problem problem_of(const DenseCase& c) {
  Problem p = plan::dense_problem(
      {c.dtype, c.batch, c.heads_q, c.heads_kv, c.seq_q, c.seq_k, c.dim, c.causal});
  p.value_head_dim = c.value_dim;
  p.set_dense_bshd();
  p.aligned = p.aligned && c.layout != Layout::padded_rows;
  p.alignment = c.alignment;
  p.window = c.window;
  p.softcap = c.softcap;
  p.features.alibi = c.alibi;
  p.features.bias = c.bias != Cells::none;
  p.features.mask = c.mask != Cells::none;
  return p;
}

void fill_row(OwnedTensor& tensor, std::int64_t b, std::int64_t s, std::int64_t h) {
  for (std::int64_t d = 0; d < tensor.view().dim; ++d) tensor.set(b, s, h, d, kNan);
}

// What a case has beside the random data.
void change_data(AttentionData& data, const DenseCase& c) {
  if (!data.mask.empty()) {  // a query that sees nothing, a key that nobody sees
    for (std::int64_t at = 0; at < c.batch * c.seq_q * c.seq_k; ++at) {
      const std::int64_t i = at / c.seq_k % c.seq_q, j = at % c.seq_k;
      if (i == c.seq_q / 2 || j == c.seq_k / 3) data.mask[static_cast<std::size_t>(at)] = 0;
    }
  }
  const plan::MaskBounds bounds = plan::mask_bounds(data.problem());
  const auto sees = [&](std::int64_t b, std::int64_t i, std::int64_t j) {
    const std::int64_t at = i + bounds.diagonal;
    return j >= at - bounds.left && j <= at + bounds.right &&
           (data.mask.empty() ||
            data.mask[static_cast<std::size_t>((b * c.seq_q + i) * c.seq_k + j)]);
  };
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t j = 0; j < c.seq_k; ++j) {
      bool seen = false;
      for (std::int64_t i = 0; i < c.seq_q; ++i) seen = seen || sees(b, i, j);
      for (std::int64_t h = 0; h < c.heads_kv; ++h) {
        if (c.unseen_nan && !seen) fill_row(data.k, b, j, h), fill_row(data.v, b, j, h);
        if (c.key_nan && j == 3) data.k.set(b, j, h, 0, kNan);
      }
    }
  }
}

struct Pairing {
  const HostKernelFacts* kernel;
  DenseCase c;
  host_lanes::Order order;
};

std::vector<Pairing> pairings() {
  std::vector<Pairing> all;
  for (const HostKernelFacts& kernel : cdna_test::host_kernels()) {
    for (DenseCase c : dense_cases()) {
      c.dtype = static_cast<DType>(kernel.element);
      c.dim = kernel.head_dim ? kernel.head_dim : 59;  // or from the arguments
      c.value_dim = kernel.head_dim ? kernel.value_head_dim : 33;
      c.scale = c.scale_factor / std::sqrt(static_cast<float>(c.dim));
      if (!serves(kernel, problem_of(c), {c.splits, 0})) continue;
      const auto order = all.size() % 2 ? host_lanes::Order::backward : host_lanes::Order::forward;
      all.push_back({&kernel, c, order});
    }
  }
  return all;
}

class HostBackend : public ::testing::TestWithParam<Pairing> {};

TEST_P(HostBackend, AgreesWithFloat64) {
  const Pairing& p = GetParam();
  SCOPED_TRACE(::testing::Message() << p.c << ", " << p.c.splits << " splits");
  AttentionData data(p.c);
  change_data(data, p.c);
  EXPECT_EQ(HostCall(*p.kernel, data, {p.c.splits, 0}).run(p.order), 0);
  const verify::Verdict verdict = data.verdict();
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  EXPECT_TRUE(data.out.untouched_outside());
  EXPECT_TRUE(std::isnan(data.lse.back())) << "the LSE ran over its end";
}

INSTANTIATE_TEST_SUITE_P(Amd, HostBackend, ::testing::ValuesIn(pairings()),
                         [](const ::testing::TestParamInfo<Pairing>& info) {
                           const DenseCase& c = info.param.c;
                           return info.param.kernel->name + "_" + c.name + "_d" +
                                  std::to_string(c.dim) + "_" + std::to_string(c.value_dim);
                         });

}  // namespace
}  // namespace hipflash::testing
