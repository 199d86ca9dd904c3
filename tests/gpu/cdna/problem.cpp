#include "problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace cdna_test {
namespace {

using hipflash::ElementType;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kUnbounded = 1 << 29;

// Round to nearest even with `bits` of significand and a smallest exponent.
double round_to(double x, int bits, int smallest) {
  if (!std::isfinite(x) || x == 0.0) return x;
  const int exponent = std::max(std::ilogb(x), smallest);
  return std::ldexp(std::nearbyint(std::ldexp(x, bits - 1 - exponent)), exponent - bits + 1);
}

std::uint16_t encode16(double x, bool bf16) {
  if (bf16) {
    const float f = static_cast<float>(x);
    std::uint32_t u;
    std::memcpy(&u, &f, 4);
    return static_cast<std::uint16_t>(u >> 16);
  }
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double a = std::fabs(x);
  if (std::isnan(x)) return 0x7e00;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = a < std::ldexp(1.0, -14) ? -14 : std::ilogb(a);
  const int units = static_cast<int>(std::ldexp(a, 10 - exponent));
  return static_cast<std::uint16_t>(sign | (units + ((exponent + 14) << 10)));
}

double decode16(std::uint16_t x, bool bf16) {
  if (bf16) {
    const std::uint32_t u = static_cast<std::uint32_t>(x) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  const int exponent = x >> 10 & 31, fraction = x & 1023;
  double a = exponent == 31  ? (fraction ? kNan : kInf)
             : exponent == 0 ? std::ldexp(fraction, -24)
                             : std::ldexp(fraction + 1024, exponent - 25);
  return x & 0x8000 ? -a : a;
}

}  // namespace

double Problem::rounded(double x) const {
  switch (element_) {
    case ElementType::f16:
      return round_to(x, 11, -14);
    case ElementType::bf16:
      return round_to(x, 8, -126);
    case ElementType::f32:
      return static_cast<double>(static_cast<float>(x));
  }
  return x;
}

double Problem::get(const std::vector<char>& data, std::int64_t at) const {
  if (element_ == ElementType::f32) {
    float f;
    std::memcpy(&f, data.data() + 4 * at, 4);
    return f;
  }
  std::uint16_t u;
  std::memcpy(&u, data.data() + 2 * at, 2);
  return decode16(u, element_ == ElementType::bf16);
}

void Problem::set(std::vector<char>& data, std::int64_t at, double value) const {
  if (element_ == ElementType::f32) {
    const float f = static_cast<float>(value);
    std::memcpy(data.data() + 4 * at, &f, 4);
    return;
  }
  const std::uint16_t u = encode16(rounded(value), element_ == ElementType::bf16);
  std::memcpy(data.data() + 2 * at, &u, 2);
}

hipflash::RowStrides Problem::make_tensor(std::vector<char>& data, int heads, int seq, int dim,
                                          unsigned seed, double size) {
  const int row = case_.layout == Layout::gaps  ? (dim + 7) / 8 * 8 + 16
                  : case_.layout == Layout::odd ? dim + 3
                                                : dim;
  hipflash::RowStrides stride = {static_cast<long long>(heads) * seq * row, row,
                                 static_cast<long long>(seq) * row};
  if (case_.layout == Layout::bshd) {
    stride.head = row;
    stride.seq = static_cast<long long>(heads) * row;
  }
  // No gap after the last row: what lies behind is not ours.
  const std::int64_t count =
      seq && heads ? first_ + stride.batch * case_.batch - (row - dim) : first_;
  const std::size_t element_bytes = element_ == ElementType::f32 ? 4 : 2;
  data.resize(static_cast<std::size_t>(count) * element_bytes);
  for (std::int64_t i = 0; i < count; i++) set(data, i, kNan);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (int b = 0; b < case_.batch; b++) {
    for (int h = 0; h < heads; h++) {
      for (int s = 0; s < seq; s++) {
        for (int d = 0; d < dim; d++) {
          set(data, first_ + b * stride.batch + h * stride.head + s * stride.seq + d,
              size * normal(random));
        }
      }
    }
  }
  return stride;
}

double Problem::bias_at(std::int64_t at) const {
  if (args_.bias_type == ElementType::f32) {
    float f;
    std::memcpy(&f, bias_.data() + 4 * at, 4);
    return f;
  }
  std::uint16_t u;
  std::memcpy(&u, bias_.data() + 2 * at, 2);
  return decode16(u, args_.bias_type == ElementType::bf16);
}

Problem::Problem(const Case& c, ElementType element, int head_dim, int value_dim)
    : case_(c), element_(element) {
  first_ = c.layout == Layout::odd ? 1 : 0;
  args_.batch = c.batch;
  args_.heads_q = c.heads_q;
  args_.heads_kv = c.heads_kv;
  args_.seq_q = c.seq_q;
  args_.seq_k = c.seq_k;
  args_.head_dim = head_dim;
  args_.value_head_dim = value_dim;
  args_.diagonal = c.top_left ? 0 : c.seq_k - c.seq_q;
  args_.window_left = c.left < 0 ? kUnbounded : c.left;
  args_.window_right = c.causal ? 0 : c.right < 0 ? kUnbounded : c.right;
  args_.alibi_diagonal = c.seq_k - c.seq_q;
  args_.scale = c.scale_factor / std::sqrt(static_cast<float>(head_dim));
  args_.softcap = c.softcap;
  args_.splits = c.splits;
  args_.partial_batch = c.batch;
  args_.partial_seq = c.seq_q;
  args_.q_stride = make_tensor(q_, c.heads_q, c.seq_q, head_dim, 1, c.size);
  args_.k_stride = make_tensor(k_, c.heads_kv, c.seq_k, head_dim, 2, 1.0);
  args_.v_stride = make_tensor(v_, c.heads_kv, c.seq_k, value_dim, 3, 1.0);
  args_.out_stride = make_tensor(out_, c.heads_q, c.seq_q, value_dim, 4, kNan);
  const std::size_t rows = static_cast<std::size_t>(c.batch) * c.heads_q * c.seq_q;
  lse_.assign(rows, std::nanf(""));
  args_.lse_stride = {static_cast<long long>(c.heads_q) * c.seq_q, 1, c.seq_q};
  partial_out_.assign(rows * value_dim * c.splits, std::nanf(""));
  partial_lse_.assign(rows * c.splits, std::nanf(""));
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  const std::size_t cells = static_cast<std::size_t>(c.heads_q) * c.seq_q * c.seq_k;
  if (c.bias) {
    args_.bias_type = c.bias_16bit && element != ElementType::f32 ? element : ElementType::f32;
    args_.bias_stride = {0, static_cast<long long>(c.seq_q) * c.seq_k, c.seq_k, 1};
    bias_.resize(cells * (args_.bias_type == ElementType::f32 ? 4 : 2));
    for (std::size_t i = 0; i < cells; i++) {
      const double x = uniform(random) < 0.2 ? -kInf : 4.0 * uniform(random) - 2.0;
      if (args_.bias_type == ElementType::f32) {
        const float f = static_cast<float>(x);
        std::memcpy(bias_.data() + 4 * i, &f, 4);
      } else {
        set(bias_, static_cast<std::int64_t>(i), x);
      }
    }
  }
  if (c.mask) {  // shared by the heads; a query that sees nothing, a key that nobody sees
    args_.mask_stride = {0, 0, c.seq_k, 1};
    mask_.resize(static_cast<std::size_t>(c.seq_q) * c.seq_k);
    for (int i = 0; i < c.seq_q; i++) {
      for (int j = 0; j < c.seq_k; j++) {
        mask_[static_cast<std::size_t>(i) * c.seq_k + j] =
            i != c.seq_q / 2 && j != c.seq_k / 3 && uniform(random) < 0.7;
      }
    }
  }
  for (int h = 0; h < c.heads_q; h++) slopes_.push_back(std::ldexp(1.0f, -1 - h));
  args_.alibi_head_stride = 1;

  for (int b = 0; b < c.batch; b++) {
    for (int h = 0; h < c.heads_kv; h++) {
      for (int j = 0; j < c.seq_k; j++) {
        bool seen = false;
        for (int i = 0; i < c.seq_q; i++) {
          seen = seen || (j >= i + args_.diagonal - args_.window_left &&
                          j <= i + args_.diagonal + args_.window_right &&
                          (!c.mask || mask_[static_cast<std::size_t>(i) * c.seq_k + j]));
        }
        const std::int64_t k =
            first_ + b * args_.k_stride.batch + h * args_.k_stride.head + j * args_.k_stride.seq;
        const std::int64_t v =
            first_ + b * args_.v_stride.batch + h * args_.v_stride.head + j * args_.v_stride.seq;
        if (c.unseen_nan && !seen) {
          for (int d = 0; d < head_dim; d++) set(k_, k + d, kNan);
          for (int d = 0; d < value_dim; d++) set(v_, v + d, kNan);
        }
        if (c.key_nan && j == 3) set(k_, k, kNan);
      }
    }
  }
  hipflash::AttentionArgs* args = &args_;
  for (Memory& m : memory(*args)) *m.argument = m.data;
  const std::size_t element_bytes = element_ == ElementType::f32 ? 4 : 2;
  for (const void** p : {&args_.q, &args_.k, &args_.v}) {
    *p = static_cast<const char*>(*p) + first_ * element_bytes;
  }
  args_.out = static_cast<char*>(args_.out) + first_ * element_bytes;
}

std::vector<Problem::Memory> Problem::memory(hipflash::AttentionArgs& args) {
  const auto of = [](auto& data, auto& argument) {
    return Memory{data.data(), data.size() * sizeof(data[0]),
                  const_cast<const void**>(reinterpret_cast<void const* const*>(&argument))};
  };
  std::vector<Memory> all = {of(q_, args.q),
                             of(k_, args.k),
                             of(v_, args.v),
                             of(out_, args.out),
                             of(lse_, args.lse),
                             of(partial_out_, args.partial_out),
                             of(partial_lse_, args.partial_lse)};
  if (case_.bias) all.push_back(of(bias_, args.bias));
  if (case_.mask) all.push_back(of(mask_, args.mask));
  if (case_.alibi) all.push_back(of(slopes_, args.alibi));
  return all;
}

Problem::Result Problem::reference(bool low) const {
  const auto f32 = [&](double x) { return low ? static_cast<double>(static_cast<float>(x)) : x; };
  const auto element = [&](double x) { return low ? rounded(x) : x; };
  const int d = args_.head_dim, dv = args_.value_head_dim;
  Result result;
  std::vector<double> score(static_cast<std::size_t>(args_.seq_k));
  for (int b = 0; b < args_.batch; b++) {
    for (int h = 0; h < args_.heads_q; h++) {
      const int kv = h / (args_.heads_q / args_.heads_kv);
      for (int i = 0; i < args_.seq_q; i++) {
        double most = -kInf;
        for (int j = 0; j < args_.seq_k; j++) {
          double dot = 0;
          for (int e = 0; e < d; e++) {
            dot = f32(dot + get(q_, first_ + b * args_.q_stride.batch + h * args_.q_stride.head +
                                        i * args_.q_stride.seq + e) *
                                get(k_, first_ + b * args_.k_stride.batch +
                                            kv * args_.k_stride.head + j * args_.k_stride.seq + e));
          }
          double s = f32(dot * args_.scale);
          if (case_.softcap > 0) s = f32(case_.softcap * std::tanh(s / case_.softcap));
          if (case_.alibi)
            s -= slopes_[static_cast<std::size_t>(h)] * std::abs(i + args_.alibi_diagonal - j);
          const std::int64_t cell = static_cast<std::int64_t>(i) * args_.seq_k + j;
          if (case_.bias) {
            const double x = bias_at(h * args_.bias_stride.head + cell);
            s = x == -kInf ? x : s + x;
          }
          if (case_.mask && !mask_[static_cast<std::size_t>(cell)]) s = -kInf;
          if (j < i + args_.diagonal - args_.window_left ||
              j > i + args_.diagonal + args_.window_right) {
            s = -kInf;
          }
          score[static_cast<std::size_t>(j)] = s;
          if (std::isnan(s) || s > most) most = s;
          if (std::isnan(most)) break;
        }
        std::vector<double> out(static_cast<std::size_t>(dv), std::isnan(most) ? kNan : 0.0);
        double sum = 0;
        if (most > -kInf) {
          for (double s : score) sum += std::exp(s - most);
          for (int j = 0; j < args_.seq_k; j++) {
            if (score[static_cast<std::size_t>(j)] == -kInf) continue;
            const double p = element(std::exp(score[static_cast<std::size_t>(j)] - most) / sum);
            const std::int64_t v = first_ + b * args_.v_stride.batch + kv * args_.v_stride.head +
                                   j * args_.v_stride.seq;
            for (int e = 0; e < dv; e++) out[static_cast<std::size_t>(e)] += p * get(v_, v + e);
          }
        }
        for (double x : out) result.out.push_back(element(x));
        result.lse.push_back(most == -kInf || std::isnan(most) ? most : most + std::log(sum));
      }
    }
  }
  return result;
}

std::string Problem::fault() {
  const Result ref = reference(false), low = reference(true);
  const int dv = args_.value_head_dim;
  double low_error = 0, rounding = 0, largest = 1;
  for (std::size_t i = 0; i < ref.out.size(); i++) {
    if (!std::isfinite(ref.out[i])) continue;
    low_error = std::max(low_error, std::fabs(low.out[i] - ref.out[i]));
    rounding = std::max(rounding, std::fabs(rounded(ref.out[i]) - ref.out[i]));
    largest = std::max(largest, std::fabs(ref.out[i]));
  }
  double bound = (case_.softcap > 0 ? 3 : 2) * low_error + 2 * rounding;
  if (element_ == ElementType::f32) bound += 2e-6 * largest;
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  std::size_t row = 0;
  for (int b = 0; b < args_.batch; b++) {
    for (int h = 0; h < args_.heads_q; h++) {
      for (int i = 0; i < args_.seq_q; i++, row++) {
        const std::string place = " of batch " + std::to_string(b) + ", head " + std::to_string(h) +
                                  ", query " + std::to_string(i) + ": ";
        for (int e = 0; e < dv; e++) {
          const std::int64_t at = first_ + b * args_.out_stride.batch + h * args_.out_stride.head +
                                  i * args_.out_stride.seq + e;
          const double x = get(out_, at), y = ref.out[row * dv + e];
          set(out_, at, kNan);
          if (std::isfinite(x) && std::isfinite(y)) {
            largest_error_ = std::max(largest_error_, std::fabs(x - y));
            if (std::fabs(x - y) <= bound) continue;
          } else if (same(x, y)) {
            continue;
          }
          return "dim " + std::to_string(e) + place + std::to_string(x) + " instead of " +
                 std::to_string(y) + ", bound " + std::to_string(bound);
        }
        const double x = lse_[row], y = ref.lse[row];
        if (std::isfinite(x) && std::isfinite(y)) {
          largest_lse_error_ = std::max(largest_lse_error_, std::fabs(x - y));
          if (std::fabs(x - y) <= 1e-4 * std::max(1.0, std::fabs(y))) continue;
        } else if (same(x, y)) {
          continue;
        }
        return "LSE" + place + std::to_string(x) + " instead of " + std::to_string(y);
      }
    }
  }
  const std::size_t element_bytes = element_ == ElementType::f32 ? 4 : 2;
  for (std::size_t i = 0; i < out_.size() / element_bytes; i++) {
    if (!std::isnan(get(out_, static_cast<std::int64_t>(i)))) return "written between rows";
  }
  return "";
}

Needs needs(const Case& c) {
  return {c.left >= 0,  c.causal || c.right >= 0, c.softcap > 0, c.alibi, c.bias, c.mask,
          c.splits > 1, c.layout != Layout::odd};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, auto&& change) {
    Case c;
    c.name = name;
    change(c);
    all.push_back(c);
  };
  const auto shape = [](Case& c, int seq_q, int seq_k) {
    c.seq_q = seq_q;
    c.seq_k = seq_k;
  };
  add("full", [](Case&) {});
  add("bshd", [](Case& c) { c.layout = Layout::bshd; });
  add("gaps", [](Case& c) { c.layout = Layout::gaps; });
  add("odd", [](Case& c) { c.layout = Layout::odd; });
  add("one_key", [&](Case& c) { shape(c, 33, 1), c.batch = 2; });
  add("one_query", [&](Case& c) { shape(c, 1, 100), c.heads_q = 4, c.heads_kv = 2; });
  add("no_keys", [&](Case& c) { shape(c, 40, 0); });
  add("whole_tiles", [&](Case& c) { shape(c, 128, 128), c.heads_kv = 2; });
  add("negative_scale", [](Case& c) { c.scale_factor = -0.7f; });
  add("zero_scale", [](Case& c) { c.scale_factor = 0.0f; });
  add("large_logits", [](Case& c) { c.size = 30.0f; });
  add("small_logits", [](Case& c) { c.size = 0.003f; });
  add("key_nan", [](Case& c) { c.key_nan = true; });
  add("causal", [](Case& c) { c.causal = true; });
  add("causal_empty_rows", [&](Case& c) { shape(c, 100, 37), c.causal = true; });
  add("causal_top_left",
      [&](Case& c) { shape(c, 30, 90), c.causal = c.top_left = c.unseen_nan = true; });
  add("window_right", [](Case& c) { c.right = 10; });
  add("window_left", [](Case& c) { c.left = 20; });
  add("window_both", [&](Case& c) { shape(c, 150, 170), c.left = 33, c.right = 5; });
  add("window_self", [&](Case& c) { shape(c, 150, 130), c.left = c.right = 0; });
  add("softcap", [](Case& c) { c.softcap = 2.0f, c.size = 4.0f; });
  add("alibi", [](Case& c) { c.alibi = true; });
  add("bias", [](Case& c) { c.bias = true; });
  add("bias_16bit", [](Case& c) { c.bias = c.bias_16bit = c.causal = true; });
  add("mask", [](Case& c) { c.mask = c.unseen_nan = true; });
  add("mask_zero_scale", [](Case& c) { c.mask = true, c.scale_factor = 0.0f; });
  add("everything", [](Case& c) {
    c.mask = c.bias = c.alibi = true;
    c.softcap = 2.0f, c.left = 90, c.right = 30, c.scale_factor = -1.0f;
  });
  add("splits", [&](Case& c) { shape(c, 40, 300), c.splits = 3; });
  add("splits_window",
      [&](Case& c) { shape(c, 40, 300), c.splits = 5, c.left = 50, c.causal = true; });
  add("more_splits_than_tiles", [&](Case& c) { shape(c, 5, 60), c.splits = 4; });
  return all;
}

}  // namespace cdna_test
