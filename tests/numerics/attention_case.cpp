#include "numerics/attention_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>

#include "hipflash/prebuilt.h"
#include "numerics/results.h"
#include "platform/cpu/isa.h"
#include "verify/convert.h"

namespace hipflash::testing {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::uint8_t kPattern = 0xff;  // NaN in every type
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Strides strides_for(Layout layout, std::int64_t seq, std::int64_t heads, std::int64_t dim) {
  switch (layout) {
    case Layout::bshd:
      return {seq * heads * dim, heads * dim, dim};
    case Layout::bhsd:
      return {heads * seq * dim, dim, seq * dim};
    case Layout::packed_qkv:
      return {seq * 3 * heads * dim, 3 * heads * dim, dim};
    case Layout::padded_rows:
      return {seq * heads * (dim + 3) + 5, heads * (dim + 3), dim + 3};
    case Layout::aligned_gaps:  // of at least 32 bytes between rows
      return {seq * heads * (dim + 16) + 16, heads * (dim + 16), dim + 16};
  }
  return {};
}

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::bshd:
      return "bshd";
    case Layout::bhsd:
      return "bhsd";
    case Layout::packed_qkv:
      return "packed_qkv";
    case Layout::padded_rows:
      return "padded_rows";
    case Layout::aligned_gaps:
      return "aligned_gaps";
  }
  return "?";
}

ScoreStrides cell_strides(Cells cells, const AttentionCase& c) {
  switch (cells) {
    case Cells::none:
      return {};
    case Cells::full:
      return {c.heads_q * c.seq_q * c.seq_k, c.seq_q * c.seq_k, c.seq_k, 1};
    case Cells::shared_heads:
      return {c.seq_q * c.seq_k, 0, c.seq_k, 1};
    case Cells::one_row:
      return {c.seq_k, 0, 0, 1};
  }
  return {};
}

std::size_t cell_count(Cells cells, const AttentionCase& c) {
  const std::int64_t row = c.batch * c.seq_k;
  switch (cells) {
    case Cells::none:
      return 0;
    case Cells::full:
      return static_cast<std::size_t>(row * c.heads_q * c.seq_q);
    case Cells::shared_heads:
      return static_cast<std::size_t>(row * c.seq_q);
    case Cells::one_row:
      return static_cast<std::size_t>(row);
  }
  return 0;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  out << to_string(c.dtype) << " B" << c.batch << " H" << c.heads_q << "/" << c.heads_kv << " S"
      << c.seq_q << "x" << c.seq_k << " D" << c.dim << "/" << (c.value_dim ? c.value_dim : c.dim)
      << " " << name_of(c.layout);
  if (c.causal) out << " causal";
  if (c.alignment == MaskAlignment::top_left) out << " top_left";
  if (!(c.window == Window{})) out << " window(" << c.window.left << "," << c.window.right << ")";
  if (c.softcap > 0) out << " softcap" << c.softcap;
  if (c.scale) out << " scale" << *c.scale;
  if (c.alibi) out << (c.alibi_per_batch ? " alibi(b,h)" : " alibi(h)");
  if (c.bias != Cells::none) out << " bias" << static_cast<int>(c.bias) << c.bias_in_dtype;
  if (c.mask != Cells::none) out << " mask" << static_cast<int>(c.mask);
  return out << " seed" << c.seed;
}

OwnedTensor::OwnedTensor(DType dtype, std::int64_t batch, std::int64_t seq, std::int64_t heads,
                         std::int64_t dim, Layout layout)
    : view_{nullptr, dtype, batch, seq, heads, dim, strides_for(layout, seq, heads, dim)} {
  const std::size_t element = size_of(dtype);
  const std::int64_t span =
      batch * view_.stride.batch + seq * view_.stride.seq + heads * view_.stride.head + dim;
  memory_.assign(2 * kGuardBytes + static_cast<std::size_t>(span) * element + 64, kPattern);
  first_ = kGuardBytes;
  while (reinterpret_cast<std::uintptr_t>(memory_.data() + first_) % 64 != 0) ++first_;
  if (layout == Layout::padded_rows) first_ += element;  // rows start anywhere
  view_.data = memory_.data() + first_;
  inside_.assign(memory_.size(), false);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < seq; ++s) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::size_t at = first_ + static_cast<std::size_t>(index(b, s, h, 0)) * element;
        std::fill_n(inside_.begin() + static_cast<std::ptrdiff_t>(at),
                    static_cast<std::ptrdiff_t>(element) * dim, true);
      }
    }
  }
}

std::int64_t OwnedTensor::index(std::int64_t b, std::int64_t s, std::int64_t h,
                                std::int64_t d) const {
  return b * view_.stride.batch + s * view_.stride.seq + h * view_.stride.head + d;
}

float OwnedTensor::get(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const {
  return verify::load(view_.dtype, view_.data, index(b, s, h, d));
}

void OwnedTensor::set(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d, float value) {
  verify::store(view_.dtype, view_.data, index(b, s, h, d), static_cast<double>(value));
}

void OwnedTensor::fill_normal(std::uint64_t seed, float factor) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t b = 0; b < view_.batch; ++b)
    for (std::int64_t s = 0; s < view_.seq; ++s)
      for (std::int64_t h = 0; h < view_.heads; ++h)
        for (std::int64_t d = 0; d < view_.dim; ++d) set(b, s, h, d, factor * normal(random));
}

void OwnedTensor::fill(float value) {
  for (std::int64_t b = 0; b < view_.batch; ++b)
    for (std::int64_t s = 0; s < view_.seq; ++s)
      for (std::int64_t h = 0; h < view_.heads; ++h)
        for (std::int64_t d = 0; d < view_.dim; ++d) set(b, s, h, d, value);
}

std::vector<std::uint8_t> OwnedTensor::bytes() const {
  std::vector<std::uint8_t> all;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (inside_[i]) all.push_back(memory_[i]);
  }
  return all;
}

std::size_t OwnedTensor::end() const {
  const auto last = std::find(inside_.rbegin(), inside_.rend(), true);
  return last == inside_.rend() ? first_ : static_cast<std::size_t>(inside_.rend() - last);
}

bool OwnedTensor::untouched_outside() const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (!inside_[i] && memory_[i] != kPattern) return false;
  }
  return true;
}

AttentionData::AttentionData(const AttentionCase& c)
    : q(c.dtype, c.batch, c.seq_q, c.heads_q, c.dim, c.layout),
      k(c.dtype, c.batch, c.seq_k, c.heads_kv, c.dim, c.layout),
      v(c.dtype, c.batch, c.seq_k, c.heads_kv, c.value_dim ? c.value_dim : c.dim, c.layout),
      out(c.dtype, c.batch, c.seq_q, c.heads_q, c.value_dim ? c.value_dim : c.dim,
          c.layout == Layout::packed_qkv ? Layout::bshd : c.layout) {
  q.fill_normal(c.seed * 7 + 1, c.query_factor);
  k.fill_normal(c.seed * 7 + 2);
  v.fill_normal(c.seed * 7 + 3);
  std::mt19937_64 random(c.seed * 7 + 4);
  std::normal_distribution<float> normal;

  options.causal = c.causal;
  options.alignment = c.alignment;
  options.window = c.window;
  options.softcap = c.softcap;
  options.scale = c.scale;
  if (c.lse) {
    lse.resize(static_cast<std::size_t>(c.batch * c.heads_q * c.seq_q) + 1);
    options.lse.data = lse.data();
  }
  if (c.alibi) {
    slopes.resize(static_cast<std::size_t>((c.alibi_per_batch ? c.batch : 1) * c.heads_q));
    for (float& slope : slopes) slope = 0.3f * std::abs(normal(random));
    options.alibi = {slopes.data(), c.alibi_per_batch ? c.heads_q : 0, 1};
  }
  if (c.bias != Cells::none) {
    const std::size_t count = cell_count(c.bias, c);
    for (std::size_t i = 0; i < count; ++i) {
      const float value =
          random() % 16 == 0 ? -std::numeric_limits<float>::infinity() : normal(random);
      if (c.bias_in_dtype && c.dtype != DType::f32) {
        bias_16.push_back(0);
        verify::store(c.dtype, bias_16.data(), static_cast<std::int64_t>(i),
                      static_cast<double>(value));
      } else {
        bias_f32.push_back(value);
      }
    }
    options.bias = {bias_16.empty() ? static_cast<const void*>(bias_f32.data()) : bias_16.data(),
                    bias_16.empty() ? DType::f32 : c.dtype, cell_strides(c.bias, c)};
  }
  if (c.mask != Cells::none) {
    mask.resize(cell_count(c.mask, c));
    for (auto& seen : mask) seen = random() % 4 != 0;
    options.mask = {mask.data(), cell_strides(c.mask, c)};
  }
}

Problem AttentionData::problem() const {
  return make_problem(q.view(), k.view(), v.view(), out.view(), options);
}

TensorPointers AttentionData::pointers() const {
  return make_pointers(q.view(), k.view(), v.view(), out.view(), options);
}

std::vector<Block> AttentionData::blocks() {
  return {block_of(q.memory()),         block_of(k.memory()), block_of(v.memory()),
          block_of(out.memory(), true), block_of(lse, true),  block_of(slopes),
          block_of(bias_f32),           block_of(bias_16),    block_of(mask)};
}

void AttentionData::poison() {
  out.fill(kNan);
  std::fill(lse.begin(), lse.end(), kNan);
}

void AttentionData::run(Context& ctx) {
  poison();
  attention_forward(ctx, q.view(), k.view(), v.view(), out.view(), options);
}

void AttentionData::run(Target& target) {
  poison();
  target.run(target.context().plan(problem()), pointers(), blocks());
}

verify::Verdict AttentionData::verdict(std::int64_t sampled_queries,
                                       std::uint64_t sample_seed) const {
  verify::ReferenceOptions reference;
  reference.most_queries = sampled_queries;
  reference.sample_seed = sample_seed;
  return verify::check(problem(), pointers(), reference);
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const CpuIsa isa : {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_bf16}) {
    if (isa <= platform::isa_report().best) names.emplace_back(cpu_isa_facts(isa).name);
  }
  return names;
}

Context& context_for(const std::string& isa, int threads) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::unique_ptr<Context>> contexts;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Context>& context = contexts[{isa, threads}];
  if (!context) {
    ContextOptions options;
    options.cpu_isa = isa;
    options.threads = threads;
    context = std::make_unique<Context>(DeviceId{}, options);
  }
  return *context;
}

void expect_right(const AttentionCase& c, const std::string& target_name,
                  const std::string& family) {
  SCOPED_TRACE(::testing::Message() << c << " on " << target_name);
  AttentionData data(c);
  Target& here = target(target_name);
  const Plan plan = here.context().plan(data.problem());
  SCOPED_TRACE(plan.explanation().text());
  if (!family.empty()) {
    EXPECT_EQ(plan.explanation().family, family);
  }
  data.poison();
  here.run(plan, data.pointers(), data.blocks());
  // The float64 reference of long sequences is what takes time on a few cores: there a random
  // sample of the rows is held against it, another one in every case.
  const bool sampled = here.is_cpu() && c.seq_q > 600;
  const verify::Verdict verdict = data.verdict(sampled ? 200 : 0, c.seed + 1);
  write_result(here.context().device(), plan, verdict);
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  EXPECT_TRUE(data.out.untouched_outside()) << "something outside the output was written";
  if (c.lse) {
    EXPECT_TRUE(std::isnan(data.lse.back())) << "the LSE ran over its end";
  }
  EXPECT_TRUE(data.q.untouched_outside() && data.k.untouched_outside() &&
              data.v.untouched_outside());
}

}  // namespace hipflash::testing
