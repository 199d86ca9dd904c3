// Random configurations of the CPU kernels against float64: outputs, log-sum-exp, gaps between
// rows, memory beyond the ends (guard pages), NaN where no query looks.
//
//   check_kernels [--isa NAME] [--cxx COMPILER] [--kernels N] [--problems N] [--seed N]
//                 [--options "-fsanitize=..."] [--folder DIR]
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernel_build.h"

namespace hipflash::bench {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Memory whose last byte lies before an inaccessible page.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size_ - page, page, PROT_NONE);
    data_ = base_ + size_ - page - bytes;
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  char* data() const { return data_; }

 private:
  std::size_t size_;
  char *base_, *data_;
};

std::size_t size_of(ElementType type) {
  return type == ElementType::f32 ? 4 : 2;
}

float half_to_float(unsigned short h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? kNan : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

unsigned short float_to_half(float x) {
  if (x != x) return 0x7e00;
  const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
  const float a = std::fabs(x);
  if (a >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00u);
  int exponent = 0;
  std::frexp(a, &exponent);
  const int step = std::max(exponent - 11, -24);
  const auto units = static_cast<unsigned>(std::lrint(std::ldexp(a, -step)));
  if (step == -24) return static_cast<unsigned short>(sign | units);
  const unsigned h = static_cast<unsigned>(step + 24) * 1024u + units;
  return static_cast<unsigned short>(sign | h);
}

float load_as(ElementType type, const void* p, long long i) {
  if (type == ElementType::f32) return static_cast<const float*>(p)[i];
  const unsigned short h = static_cast<const unsigned short*>(p)[i];
  if (type == ElementType::f16) return half_to_float(h);
  const unsigned bits = static_cast<unsigned>(h) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

void store_as(ElementType type, void* p, long long i, float x) {
  if (type == ElementType::f32) {
    static_cast<float*>(p)[i] = x;
  } else if (type == ElementType::f16) {
    static_cast<unsigned short*>(p)[i] = float_to_half(x);
  } else {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    bits = x != x ? 0x7fc00000u : bits + 0x7fff + (bits >> 16 & 1);
    static_cast<unsigned short*>(p)[i] = static_cast<unsigned short>(bits >> 16);
  }
}

using Random = std::mt19937;
int pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}
bool chance(Random& random, double p) {
  return std::bernoulli_distribution(p)(random);
}

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

std::size_t extent(const RowStrides& s, int batch, int seq, int heads, int dim) {
  return static_cast<std::size_t>(std::max(batch - 1, 0) * s.batch + std::max(seq - 1, 0) * s.seq +
                                  std::max(heads - 1, 0) * s.head + dim);
}

struct Check {
  KernelConfig config;
  Kernel kernel;
  Random random;
  double worst = 0.0;  // error as a part of what is allowed

  // Runs one random problem; prints and returns false if something is wrong.
  bool run_problem();
};

bool Check::run_problem() {
  AttentionArgs a = {};
  const auto dim = [&](int fixed) {
    if (fixed) return fixed;
    return chance(random, 0.8) ? pick(random, 1, 160) : pick(random, 1, 512);
  };
  a.head_dim = dim(config.head_dim);
  a.value_head_dim = dim(config.value_head_dim);
  a.batch = pick(random, 1, 3);
  a.heads_kv = pick(random, 1, 3);
  a.heads_q = a.heads_kv * (chance(random, 0.5) ? 1 : pick(random, 1, 9));
  const auto length = [&] {
    return chance(random, 0.2)   ? pick(random, 1, 4)
           : chance(random, 0.8) ? pick(random, 1, 150)
                                 : pick(random, 1, 900);
  };
  a.seq_q = length();
  a.seq_k = chance(random, 0.03) ? 0 : length();
  const double products =
      double(a.batch) * a.heads_q * a.seq_q * a.seq_k * (a.head_dim + a.value_head_dim);
  const CpuShape shape = config.shape;  // what the kernel takes for granted
  if (shape.chunk_rows == 1) a.heads_q = a.heads_kv, a.seq_q = 1;
  if (shape.chunk_rows == kCpuFewRows) {
    const int rows = pick(random, 2, kCpuFewRows);
    a.heads_q = a.heads_kv * (chance(random, 0.5) ? rows : 1);
    a.seq_q = a.heads_q == a.heads_kv ? rows : 1;
  }
  if (shape.chunk_rows > kCpuFewRows) {
    a.seq_q = std::max(a.seq_q, (kCpuFewRows * a.heads_kv) / a.heads_q + 1);
  }
  if (shape.few_keys) a.seq_k = shape.few_keys;
  const int group = a.heads_q / a.heads_kv;
  if (products > 4e7 && shape.chunk_rows == 0) {
    a.batch = 1;
    a.seq_q = std::max(1, static_cast<int>(a.seq_q * std::min(1.0, 4e7 / products)));
  }

  const ElementType type = config.element;
  a.q_stride = random_strides(random, a.batch, a.seq_q, a.heads_q, a.head_dim, true);
  a.k_stride = random_strides(random, a.batch, a.seq_k, a.heads_kv, a.head_dim, true);
  a.v_stride = random_strides(random, a.batch, a.seq_k, a.heads_kv, a.value_head_dim, true);
  a.out_stride = random_strides(random, a.batch, a.seq_q, a.heads_q, a.value_head_dim, false);
  if (chance(random, 0.3)) {  // rows in whole lines
    const long long row = cpu_round_up(a.value_head_dim, 64);
    a.out_stride = {row * a.heads_q * a.seq_q, row * a.heads_q, row};
  }
  a.lse_stride = random_strides(random, a.batch, a.seq_q, a.heads_q, 1, false);
  const std::size_t q_size = extent(a.q_stride, a.batch, a.seq_q, a.heads_q, a.head_dim);
  const std::size_t k_size =
      a.seq_k ? extent(a.k_stride, a.batch, a.seq_k, a.heads_kv, a.head_dim) : 0;
  const std::size_t v_size =
      a.seq_k ? extent(a.v_stride, a.batch, a.seq_k, a.heads_kv, a.value_head_dim) : 0;
  const std::size_t out_size = extent(a.out_stride, a.batch, a.seq_q, a.heads_q, a.value_head_dim);
  const std::size_t lse_size = extent(a.lse_stride, a.batch, a.seq_q, a.heads_q, 1);
  Guarded q(q_size * size_of(type)), k(k_size * size_of(type)), v(v_size * size_of(type)),
      out(out_size * size_of(type)), lse(lse_size * 4);
  std::normal_distribution<float> normal(0.0f, chance(random, 0.2) ? 4.0f : 1.0f);
  for (std::size_t i = 0; i < q_size; ++i) store_as(type, q.data(), (long long)i, normal(random));
  for (std::size_t i = 0; i < k_size; ++i) store_as(type, k.data(), (long long)i, normal(random));
  for (std::size_t i = 0; i < v_size; ++i) store_as(type, v.data(), (long long)i, normal(random));
  std::memset(out.data(), 0xff, out_size * size_of(type));
  std::memset(lse.data(), 0xff, lse_size * 4);
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
  if (!chance(random, 0.1)) a.lse = reinterpret_cast<float*>(lse.data());

  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  if (chance(random, 0.1)) a.scale = -a.scale;
  if (chance(random, 0.05)) a.scale = 0.0f;
  a.alibi_diagonal = a.seq_k - a.seq_q;
  a.diagonal = chance(random, 0.7) ? a.seq_k - a.seq_q : 0;
  constexpr int kUnbounded = 1 << 29;
  const auto window = [&](bool may) {
    return !may || chance(random, 0.2) ? kUnbounded
           : chance(random, 0.4)       ? 0
                                       : pick(random, 0, std::max(a.seq_k, 1));
  };
  a.window_left = window(config.window_left);
  a.window_right = window(config.window_right);
  if (config.softcap && chance(random, 0.7)) a.softcap = chance(random, 0.5) ? 50.0f : 2.0f;
  std::vector<float> slopes(static_cast<std::size_t>(a.batch) * a.heads_q);
  if (config.alibi && chance(random, 0.7)) {
    for (float& slope : slopes) slope = std::exp2(-static_cast<float>(pick(random, 1, 8)));
    a.alibi = slopes.data();
    a.alibi_head_stride = 1;
    a.alibi_batch_stride = chance(random, 0.5) ? a.heads_q : 0;
  }
  const auto cell_strides = [&] {
    CellStrides s = {};
    long long next = 1;
    const auto take = [&](long long& stride, int count, double repeat) {
      if (chance(random, repeat)) return;
      stride = next;
      next *= std::max(count, 1);
    };
    if (chance(random, 0.8)) {
      take(s.key, a.seq_k, 0.05);
      take(s.query, a.seq_q, 0.3);
    } else {
      take(s.query, a.seq_q, 0.3);
      take(s.key, a.seq_k, 0.05);
    }
    take(s.head, a.heads_q, 0.5);
    take(s.batch, a.batch, 0.5);
    return std::pair(s, static_cast<std::size_t>(next));
  };
  const auto [bias_stride, bias_size] = cell_strides();
  const auto [mask_stride, mask_size] = cell_strides();
  a.bias_stride = bias_stride, a.mask_stride = mask_stride;
  a.bias_type = static_cast<ElementType>(pick(random, 0, 2));
  Guarded bias(bias_size * size_of(a.bias_type)), mask(mask_size);
  if (config.bias && chance(random, 0.7)) {
    const double hidden = chance(random, 0.3) ? 0.3 : 0.0;
    for (std::size_t i = 0; i < bias_size; ++i) {
      store_as(a.bias_type, bias.data(), (long long)i,
               chance(random, hidden) ? -std::numeric_limits<float>::infinity() : normal(random));
    }
    a.bias = bias.data();
  }
  if (config.mask && chance(random, 0.7)) {
    const double seen = chance(random, 0.2) ? 0.02 : 0.7;
    for (std::size_t i = 0; i < mask_size; ++i) mask.data()[i] = chance(random, seen);
    a.mask = reinterpret_cast<unsigned char*>(mask.data());
  }

  const auto bias_value = [&](int b, int h, int i, int j) {
    if (!a.bias) return 0.0;
    return double(load_as(a.bias_type, a.bias,
                          b * a.bias_stride.batch + h * a.bias_stride.head +
                              i * a.bias_stride.query + j * a.bias_stride.key));
  };
  const auto seen = [&](int b, int h, int i, int j) {
    const long long center = (long long)i + a.diagonal;
    if (config.window_left && j < center - a.window_left) return false;
    if (config.window_right && j > center + a.window_right) return false;
    if (a.mask && !a.mask[b * a.mask_stride.batch + h * a.mask_stride.head +
                          i * a.mask_stride.query + j * a.mask_stride.key]) {
      return false;
    }
    return bias_value(b, h, i, j) != -kInf;
  };

  // NaN where no query of any (batch, head) that could alias looks.
  if (chance(random, 0.3) && a.k_stride.batch && a.k_stride.head && a.v_stride.batch &&
      a.v_stride.head) {
    for (int b = 0; b < a.batch; ++b) {
      for (int h = 0; h < a.heads_kv; ++h) {
        for (int j = 0; j < a.seq_k; ++j) {
          bool any = false;
          for (int g = 0; g < group && !any; ++g) {
            for (int i = 0; i < a.seq_q && !any; ++i) any = seen(b, h * group + g, i, j);
          }
          if (any) continue;
          for (int d = 0; d < a.head_dim; ++d) {
            store_as(type, k.data(),
                     b * a.k_stride.batch + j * a.k_stride.seq + h * a.k_stride.head + d, kNan);
          }
          for (int d = 0; d < a.value_head_dim; ++d) {
            store_as(type, v.data(),
                     b * a.v_stride.batch + j * a.v_stride.seq + h * a.v_stride.head + d, kNan);
          }
        }
      }
    }
  }

  const int threads = pick(random, 1, 4);
  a.partial_batch = a.batch;
  a.partial_seq = a.seq_q;
  a.splits = 1;
  if (config.split_keys) {
    a.splits = chance(random, 0.3) ? cpu_key_splits(a, kernel.tile, threads) : pick(random, 1, 5);
  }
  const std::size_t partial_rows =
      static_cast<std::size_t>(a.splits) * a.batch * a.heads_q * a.seq_q;
  Guarded partial_out(partial_rows * a.value_head_dim * 4), partial_lse(partial_rows * 4);
  std::memset(partial_out.data(), 0xff, partial_rows * a.value_head_dim * 4);
  std::memset(partial_lse.data(), 0xff, partial_rows * 4);
  a.partial_out = reinterpret_cast<float*>(partial_out.data());
  a.partial_lse = reinterpret_cast<float*>(partial_lse.data());
  CpuWork work = plan_cpu_work(a, kernel.tile, threads);
  work.cache_bytes = chance(random, 0.5) ? 0 : 1LL << 60;  // may write past the caches, or not
  const auto scratch_bytes = static_cast<std::size_t>((work.scratch_bytes + 63) / 64 * 64);
  Guarded scratch(scratch_bytes);
  std::memset(scratch.data(), 0xff, scratch_bytes);
  for (long long item = work.items - 1; item >= 0; --item) {
    kernel.forward(&a, &work, item, scratch.data());
  }
  for (long long item = 0; item < work.merge_items; ++item) {
    kernel.merge(&a, &work, item, scratch.data());
  }

  // Float64, row by row. What is allowed: the rounding of the output, and of the inner products.
  const double unit = type == ElementType::f32   ? 1.2e-7
                      : type == ElementType::f16 ? 9.8e-4
                                                 : 7.8e-3;
  const double product_unit = config.isa == CpuIsa::avx512_bf16 ? 7.8e-3 : 1.2e-7;
  std::vector<double> p(static_cast<std::size_t>(std::max(a.seq_k, 1)));
  std::vector<unsigned char> written(out_size, 0);
  const auto fail = [&](const char* what, int b, int h, int i, int d, double got, double want) {
    std::printf(
        "WRONG %s: isa %s %s d %d/%d batch %d heads %d/%d seq %d/%d splits %d scale %g windows "
        "%d,%d "
        "diagonal %d softcap %g alibi %d bias %d mask %d: at b %d h %d i %d d %d got %g want %g\n",
        what, cpu_isa_facts(config.isa).name, name_of(type), a.head_dim, a.value_head_dim, a.batch,
        a.heads_q, a.heads_kv, a.seq_q, a.seq_k, a.splits, double(a.scale), a.window_left,
        a.window_right, a.diagonal, double(a.softcap), a.alibi != nullptr, a.bias != nullptr,
        a.mask != nullptr, b, h, i, d, got, want);
    return false;
  };
  for (int b = 0; b < a.batch; ++b) {
    for (int h = 0; h < a.heads_q; ++h) {
      for (int i = 0; i < a.seq_q; ++i) {
        const long long q_row = b * a.q_stride.batch + i * a.q_stride.seq + h * a.q_stride.head;
        double max = -kInf, largest = 0.0;
        for (int j = 0; j < a.seq_k; ++j) {
          double& s = p[static_cast<std::size_t>(j)];
          s = -kInf;
          if (!seen(b, h, i, j)) continue;
          const long long k_row =
              b * a.k_stride.batch + j * a.k_stride.seq + h / group * a.k_stride.head;
          double dot = 0.0, size = 0.0;
          for (int d = 0; d < a.head_dim; ++d) {
            const double term =
                double(load_as(type, q.data(), q_row + d)) * load_as(type, k.data(), k_row + d);
            dot += term;
            size += std::fabs(term);
          }
          s = dot * double(a.scale);
          if (a.softcap > 0) s = double(a.softcap) * std::tanh(s / double(a.softcap));
          if (a.alibi) {
            s -= double(a.alibi[b * a.alibi_batch_stride + h * a.alibi_head_stride]) *
                 std::fabs(double(i + a.alibi_diagonal - j));
          }
          s += bias_value(b, h, i, j);
          max = std::max(max, s);
          largest = std::max({largest, size * std::fabs(double(a.scale)), std::fabs(s)});
        }
        double sum = 0.0;
        for (int j = 0; j < a.seq_k; ++j) {
          double& s = p[static_cast<std::size_t>(j)];
          s = max == -kInf ? 0.0 : std::exp(s - max);
          sum += s;
        }
        const double score_error = 4e-7 * (largest + 4);
        if (a.lse) {
          const float got =
              a.lse[b * a.lse_stride.batch + i * a.lse_stride.seq + h * a.lse_stride.head];
          const double want = sum == 0.0 ? -kInf : max + std::log(sum);
          if (!(got == want) && !(std::fabs(got - want) <= score_error + 1e-6)) {
            return fail("lse", b, h, i, -1, got, want);
          }
        }
        for (int d = 0; d < a.value_head_dim; ++d) {
          double want = 0.0, size = 0.0;
          for (int j = 0; j < a.seq_k; ++j) {
            if (p[static_cast<std::size_t>(j)] == 0.0) continue;
            const double term =
                p[static_cast<std::size_t>(j)] * load_as(type, v.data(),
                                                         b * a.v_stride.batch + j * a.v_stride.seq +
                                                             h / group * a.v_stride.head + d);
            want += term;
            size += std::fabs(term);
          }
          if (sum != 0.0) want /= sum, size /= sum;
          const long long at =
              b * a.out_stride.batch + i * a.out_stride.seq + h * a.out_stride.head + d;
          const double got = load_as(type, out.data(), at);
          written[static_cast<std::size_t>(at)] = 1;
          const double allowed =
              unit * std::fabs(want) + size * (2 * score_error + product_unit + 4e-7) + 1e-7;
          if (!(std::fabs(got - want) <= allowed)) return fail("output", b, h, i, d, got, want);
          worst = std::max(worst, std::fabs(got - want) / allowed);
        }
      }
    }
  }
  for (std::size_t at = 0; at < out_size; ++at) {
    if (written[at]) continue;
    for (std::size_t byte = 0; byte < size_of(type); ++byte) {
      if (out.data()[at * size_of(type) + byte] != char(0xff)) {
        return fail("gap between rows", 0, 0, 0, int(at), 0, 0);
      }
    }
  }
  return true;
}

int run(int argc, char** argv) {
  std::string only, compiler = "g++", options, folder = "/tmp/hipflash_check_kernels";
  int kernels = 20, problems = 20;
  unsigned seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--isa") only = value;
    if (name == "--cxx") compiler = value;
    if (name == "--options") options = value;
    if (name == "--folder") folder = value;
    if (name == "--kernels") kernels = std::stoi(value);
    if (name == "--problems") problems = std::stoi(value);
    if (name == "--seed") seed = static_cast<unsigned>(std::stoul(value));
  }
  int failed = 0, done = 0;
  for (int isa = 0; isa <= static_cast<int>(CpuIsa::avx512_bf16); ++isa) {
    if (!only.empty() && only != cpu_isa_facts(static_cast<CpuIsa>(isa)).name) continue;
    double worst = 0.0;
    for (int n = 0; n < kernels; ++n) {
      Check check;
      check.random.seed(seed * 1000 + static_cast<unsigned>(n));
      KernelConfig& c = check.config;
      c.isa = static_cast<CpuIsa>(isa);
      c.element =
          c.isa == CpuIsa::avx512_bf16 ? ElementType::bf16 : static_cast<ElementType>(n % 3);
      const bool general = n < 3;
      const auto flag = [&] { return general || chance(check.random, 0.3); };
      constexpr int kDims[] = {1, 8, 16, 31, 32, 40, 59, 64, 80, 96, 111, 128, 192, 256, 512};
      if (!general) {
        c.head_dim = kDims[pick(check.random, 0, std::size(kDims) - 1)];
        c.value_head_dim =
            chance(check.random, 0.7) ? c.head_dim : kDims[pick(check.random, 0, 14)];
      }
      c.window_left = flag(), c.window_right = flag(), c.softcap = flag(), c.alibi = flag();
      c.bias = flag(), c.mask = flag(), c.split_keys = flag();
      if (!general) {
        c.shape.chunk_rows = chance(check.random, 0.3)   ? 1
                             : chance(check.random, 0.5) ? kCpuFewRows
                                                         : pick(check.random, 0, 1) * 5;
        if (c.shape.chunk_rows <= kCpuFewRows && c.shape.chunk_rows && !c.window_left &&
            !c.window_right && !c.split_keys && chance(check.random, 0.6)) {
          c.shape.few_keys = pick(check.random, 1, kCpuFewKeys);
        }
      }
      check.kernel = build_kernel(c, compiler, folder, options);
      for (int i = 0; i < problems; ++i, ++done) failed += !check.run_problem();
      worst = std::max(worst, check.worst);
    }
    std::printf("%-12s worst error / allowed: %.3f\n", cpu_isa_facts(static_cast<CpuIsa>(isa)).name,
                worst);
  }
  std::printf("%d of %d problems wrong\n", failed, done);
  return failed != 0;
}

}  // namespace
}  // namespace hipflash::bench

int main(int argc, char** argv) {
  return hipflash::bench::run(argc, argv);
}
