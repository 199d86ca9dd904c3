#include "random_problem.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace hipflash::bench {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Strides of a (batch, seq, head) tensor in a random order of dimensions, with random gaps.
RowStrides random_strides(Random& random, int batch, int seq, int heads, int dim, bool repeat) {
  const int counts[3] = {batch, seq, heads};
  int order[3] = {0, 1, 2};
  std::shuffle(order, order + 3, random);
  long long stride[3], next = dim + (chance(random, 0.5) ? pick(random, 0, 19) : 0);
  for (const int d : order) {
    stride[d] = next;
    next = next * std::max(counts[d], 1) + (chance(random, 0.3) ? pick(random, 0, 9) : 0);
  }
  if (repeat && chance(random, 0.1)) stride[0] = 0;
  if (repeat && chance(random, 0.05)) stride[2] = 0;
  return {stride[0], stride[1], stride[2]};
}

struct Cells {
  CellStrides strides = {};
  std::size_t count = 1;
};
// Of a bias or a mask in a random order of dimensions, of which some are broadcast.
Cells random_cells(Random& random, const AttentionArgs& a) {
  Cells cells;
  const auto take = [&](long long& stride, int count, double repeat) {
    if (chance(random, repeat)) return;
    stride = static_cast<long long>(cells.count);
    cells.count *= static_cast<std::size_t>(std::max(count, 1));
  };
  CellStrides& s = cells.strides;
  if (chance(random, 0.8)) {
    take(s.key, a.seq_k, 0.05);
    take(s.query, a.seq_q, 0.3);
  } else {
    take(s.query, a.seq_q, 0.3);
    take(s.key, a.seq_k, 0.05);
  }
  take(s.head, a.heads_q, 0.5);
  take(s.batch, a.batch, 0.5);
  return cells;
}

}  // namespace

int pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}
bool chance(Random& random, double p) {
  return std::bernoulli_distribution(p)(random);
}

Guarded::Guarded(std::size_t bytes) : bytes_(bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  mapped_ = (bytes + page - 1) / page * page + page;
  base_ = static_cast<char*>(
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(base_ + mapped_ - page, page, PROT_NONE);
  data_ = base_ + mapped_ - page - bytes;
  std::memset(data_, 0xff, bytes);
}
Guarded::~Guarded() {
  if (base_) munmap(base_, mapped_);
}
Guarded::Guarded(Guarded&& other) noexcept {
  *this = std::move(other);
}
Guarded& Guarded::operator=(Guarded&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(bytes_, other.bytes_);
  std::swap(base_, other.base_);
  std::swap(data_, other.data_);
  return *this;
}

RandomProblem::RandomProblem(const KernelConfig& config, const CpuTile& tile, Random& random)
    : config_(config), random_(random) {
  AttentionArgs& a = args_;
  choose_sizes();
  normal_ = std::normal_distribution<float>(0.0f, chance(random, 0.2) ? 4.0f : 1.0f);
  for (const auto& [data, pointer] : {std::pair(&q_, &a.q), {&k_, &a.k}, {&v_, &a.v}}) {
    fill(*data, config.element);
    *pointer = data->data();
  }
  a.out = out_.data();
  if (!chance(random, 0.1)) a.lse = reinterpret_cast<float*>(lse_.data());
  choose_modifiers();
  choose_cells();
  hide_unseen();

  const int threads = pick(random, 1, 4);
  a.partial_batch = a.batch;
  a.partial_seq = a.seq_q;
  a.splits = 1;
  if (config.split_keys) {
    a.splits = chance(random, 0.3) ? cpu_key_splits(a, tile, threads) : pick(random, 1, 5);
  }
  const std::size_t rows = static_cast<std::size_t>(a.splits) * a.batch * a.heads_q * a.seq_q;
  partial_out_ = Guarded(rows * a.value_head_dim * 4);
  partial_lse_ = Guarded(rows * 4);
  a.partial_out = reinterpret_cast<float*>(partial_out_.data());
  a.partial_lse = reinterpret_cast<float*>(partial_lse_.data());
  work_ = plan_cpu_work(a, tile, threads);
  work_.cache_bytes = chance(random, 0.5) ? 0 : 1LL << 60;  // may write past the caches, or not
  scratch_ = Guarded(static_cast<std::size_t>((work_.scratch_bytes + 63) / 64 * 64));
}

void RandomProblem::choose_sizes() {
  AttentionArgs& a = args_;
  const auto dim = [&](int fixed) {
    if (fixed) return fixed;
    return chance(random_, 0.8) ? pick(random_, 1, 160) : pick(random_, 1, 512);
  };
  a.head_dim = dim(config_.head_dim);
  a.value_head_dim = dim(config_.value_head_dim);
  a.batch = pick(random_, 1, 3);
  a.heads_kv = pick(random_, 1, 3);
  a.heads_q = a.heads_kv * (chance(random_, 0.5) ? 1 : pick(random_, 1, 9));
  const auto length = [&] {
    return chance(random_, 0.2)   ? pick(random_, 1, 4)
           : chance(random_, 0.8) ? pick(random_, 1, 150)
                                  : pick(random_, 1, 900);
  };
  a.seq_q = length();
  a.seq_k = chance(random_, 0.03) ? 0 : length();
  const double products =
      double(a.batch) * a.heads_q * a.seq_q * a.seq_k * (a.head_dim + a.value_head_dim);
  const CpuShape shape = config_.shape;  // what the kernel takes for granted
  if (shape.chunk_rows == 1) a.heads_q = a.heads_kv, a.seq_q = 1;
  if (shape.chunk_rows == kCpuFewRows) {
    const int rows = pick(random_, 2, kCpuFewRows);
    a.heads_q = a.heads_kv * (chance(random_, 0.5) ? rows : 1);
    a.seq_q = a.heads_q == a.heads_kv ? rows : 1;
  }
  if (shape.chunk_rows > kCpuFewRows) {
    a.seq_q = std::max(a.seq_q, (kCpuFewRows * a.heads_kv) / a.heads_q + 1);
  }
  if (shape.few_keys) a.seq_k = shape.few_keys;
  if (products > 4e7 && shape.chunk_rows == 0) {
    a.batch = 1;
    a.seq_q = std::max(1, static_cast<int>(a.seq_q * std::min(1.0, 4e7 / products)));
  }

  a.q_stride = random_strides(random_, a.batch, a.seq_q, a.heads_q, a.head_dim, true);
  a.k_stride = random_strides(random_, a.batch, a.seq_k, a.heads_kv, a.head_dim, true);
  a.v_stride = random_strides(random_, a.batch, a.seq_k, a.heads_kv, a.value_head_dim, true);
  a.out_stride = random_strides(random_, a.batch, a.seq_q, a.heads_q, a.value_head_dim, false);
  if (chance(random_, 0.3)) {  // rows in whole lines
    const long long row = cpu_round_up(a.value_head_dim, 64);
    a.out_stride = {row * a.heads_q * a.seq_q, row * a.heads_q, row};
  }
  a.lse_stride = random_strides(random_, a.batch, a.seq_q, a.heads_q, 1, false);
  q_ = tensor(a.q_stride, a.seq_q, a.heads_q, a.head_dim);
  k_ = tensor(a.k_stride, a.seq_k, a.heads_kv, a.head_dim);
  v_ = tensor(a.v_stride, a.seq_k, a.heads_kv, a.value_head_dim);
  out_ = tensor(a.out_stride, a.seq_q, a.heads_q, a.value_head_dim);
  lse_ = Guarded(static_cast<std::size_t>((a.batch - 1) * a.lse_stride.batch +
                                          (a.seq_q - 1) * a.lse_stride.seq +
                                          (a.heads_q - 1) * a.lse_stride.head + 1) *
                 4);
}

Guarded RandomProblem::tensor(RowStrides s, int seq, int heads, int dim) const {
  if (seq == 0) return Guarded(0);
  const long long elements =
      (args_.batch - 1) * s.batch + (seq - 1) * s.seq + (heads - 1) * s.head + dim;
  return Guarded(static_cast<std::size_t>(elements) * size_of(config_.element));
}

void RandomProblem::fill(const Guarded& data, ElementType type) {
  const auto count = static_cast<long long>(data.bytes() / size_of(type));
  for (long long i = 0; i < count; ++i) store_as(type, data.data(), i, normal_(random_));
}

void RandomProblem::choose_modifiers() {
  AttentionArgs& a = args_;
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  if (chance(random_, 0.1)) a.scale = -a.scale;
  if (chance(random_, 0.05)) a.scale = 0.0f;
  a.alibi_diagonal = a.seq_k - a.seq_q;
  a.diagonal = chance(random_, 0.7) ? a.seq_k - a.seq_q : 0;
  constexpr int kUnbounded = 1 << 29;
  const auto window = [&](bool may) {
    return !may || chance(random_, 0.2) ? kUnbounded
           : chance(random_, 0.4)       ? 0
                                        : pick(random_, 0, std::max(a.seq_k, 1));
  };
  a.window_left = window(config_.window_left);
  a.window_right = window(config_.window_right);
  if (config_.softcap && chance(random_, 0.7)) a.softcap = chance(random_, 0.5) ? 50.0f : 2.0f;
  if (config_.alibi && chance(random_, 0.7)) {
    slopes_.resize(static_cast<std::size_t>(a.batch) * a.heads_q);
    for (float& slope : slopes_) slope = std::exp2(-static_cast<float>(pick(random_, 1, 8)));
    a.alibi = slopes_.data();
    a.alibi_head_stride = 1;
    a.alibi_batch_stride = chance(random_, 0.5) ? a.heads_q : 0;
  }
}

void RandomProblem::choose_cells() {
  AttentionArgs& a = args_;
  const Cells bias = random_cells(random_, a), mask = random_cells(random_, a);
  a.bias_stride = bias.strides, a.mask_stride = mask.strides;
  a.bias_type = static_cast<ElementType>(pick(random_, 0, 2));
  if (config_.bias && chance(random_, 0.7)) {
    const double hidden = chance(random_, 0.3) ? 0.3 : 0.0;
    bias_ = Guarded(bias.count * size_of(a.bias_type));
    for (std::size_t i = 0; i < bias.count; ++i) {
      store_as(a.bias_type, bias_.data(), static_cast<long long>(i),
               chance(random_, hidden) ? -kInf : normal_(random_));
    }
    a.bias = bias_.data();
  }
  if (config_.mask && chance(random_, 0.7)) {
    const double seen = chance(random_, 0.2) ? 0.02 : 0.7;
    mask_ = Guarded(mask.count);
    for (std::size_t i = 0; i < mask.count; ++i) mask_.data()[i] = chance(random_, seen);
    a.mask = reinterpret_cast<unsigned char*>(mask_.data());
  }
}

// NaN where no query of any (batch, head) that could alias looks.
void RandomProblem::hide_unseen() {
  const AttentionArgs& a = args_;
  if (!chance(random_, 0.3) || !a.k_stride.batch || !a.k_stride.head || !a.v_stride.batch ||
      !a.v_stride.head) {
    return;
  }
  const int group = a.heads_q / a.heads_kv;
  const auto hide = [&](const Guarded& data, RowStrides s, int dim, int b, int h, int j) {
    for (int d = 0; d < dim; ++d) {
      store_as(config_.element, data.data(), b * s.batch + j * s.seq + h * s.head + d, kNan);
    }
  };
  for (int b = 0; b < a.batch; ++b) {
    for (int h = 0; h < a.heads_kv; ++h) {
      for (int j = 0; j < a.seq_k; ++j) {
        bool any = false;
        for (int g = 0; g < group && !any; ++g) {
          for (int i = 0; i < a.seq_q && !any; ++i) any = sees(b, h * group + g, i, j);
        }
        if (any) continue;
        hide(k_, a.k_stride, a.head_dim, b, h, j);
        hide(v_, a.v_stride, a.value_head_dim, b, h, j);
      }
    }
  }
}

double RandomProblem::bias_at(int b, int h, int i, int j) const {
  const CellStrides& s = args_.bias_stride;
  if (!args_.bias) return 0.0;
  return double(
      load_as(args_.bias_type, args_.bias, b * s.batch + h * s.head + i * s.query + j * s.key));
}

bool RandomProblem::sees(int b, int h, int i, int j) const {
  const long long center = static_cast<long long>(i) + args_.diagonal;
  if (config_.window_left && j < center - args_.window_left) return false;
  if (config_.window_right && j > center + args_.window_right) return false;
  const CellStrides& s = args_.mask_stride;
  if (args_.mask && !args_.mask[b * s.batch + h * s.head + i * s.query + j * s.key]) return false;
  return bias_at(b, h, i, j) != -double(kInf);
}

void RandomProblem::run(const Kernel& kernel) {
  for (long long item = work_.items - 1; item >= 0; --item) {
    kernel.forward(&args_, &work_, item, scratch_.data());
  }
  for (long long item = 0; item < work_.merge_items; ++item) {
    kernel.merge(&args_, &work_, item, scratch_.data());
  }
}

}  // namespace hipflash::bench
