// Random configurations of the CPU kernels against float64: outputs, log-sum-exp, gaps between
// rows, memory beyond the ends (guard pages), NaN where no query looks.
//
//   check_kernels [--isa NAME] [--cxx COMPILER] [--kernels N] [--problems N] [--seed N]
//                 [--options "-fsanitize=..."] [--folder DIR]
//
// Instruction sets that this processor lacks are left out; exit status 77 if none is left.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "random_problem.h"

namespace hipflash::bench {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Check {
  KernelConfig config;
  Kernel kernel;
  Random random;
  double worst = 0.0;  // error as a part of what is allowed

  // Runs one random problem; prints and returns false if something is wrong.
  bool run_problem();
};

// One row of scores in float64.
struct Row {
  std::vector<double> p;  // exp(score - max)
  double max = -kInf, sum = 0.0;
  double error = 0.0;  // of a score
};

Row scores_of(const RandomProblem& problem, ElementType type, int b, int h, int i) {
  const AttentionArgs& a = problem.args();
  const int kv = h / (a.heads_q / a.heads_kv);
  const long long q_row = b * a.q_stride.batch + i * a.q_stride.seq + h * a.q_stride.head;
  Row row;
  row.p.assign(static_cast<std::size_t>(a.seq_k), -kInf);
  double largest = 0.0;
  for (int j = 0; j < a.seq_k; ++j) {
    if (!problem.sees(b, h, i, j)) continue;
    const long long k_row = b * a.k_stride.batch + j * a.k_stride.seq + kv * a.k_stride.head;
    double dot = 0.0, size = 0.0;
    for (int d = 0; d < a.head_dim; ++d) {
      const double term = double(load_as(type, a.q, q_row + d)) * load_as(type, a.k, k_row + d);
      dot += term;
      size += std::fabs(term);
    }
    double& s = row.p[static_cast<std::size_t>(j)];
    s = dot * double(a.scale);
    if (a.softcap > 0) s = double(a.softcap) * std::tanh(s / double(a.softcap));
    if (a.alibi) {
      s -= double(a.alibi[b * a.alibi_batch_stride + h * a.alibi_head_stride]) *
           std::fabs(double(i + a.alibi_diagonal - j));
    }
    s += problem.bias_at(b, h, i, j);
    row.max = std::max(row.max, s);
    largest = std::max({largest, size * std::fabs(double(a.scale)), std::fabs(s)});
  }
  for (double& s : row.p) {
    s = row.max == -kInf ? 0.0 : std::exp(s - row.max);
    row.sum += s;
  }
  row.error = 4e-7 * (largest + 4);
  return row;
}

bool Check::run_problem() {
  RandomProblem problem(config, kernel.tile, random);
  problem.run(kernel);
  const AttentionArgs& a = problem.args();
  const ElementType type = config.element;
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

  // What is allowed: the rounding of the output, and of the inner products.
  const double unit = type == ElementType::f32   ? 1.2e-7
                      : type == ElementType::f16 ? 9.8e-4
                                                 : 7.8e-3;
  const double product_unit = config.isa == CpuIsa::avx512_bf16 ? 7.8e-3 : 1.2e-7;
  const std::size_t element = size_of(type), out_size = problem.out().bytes() / element;
  std::vector<unsigned char> written(out_size, 0);
  for (int b = 0; b < a.batch; ++b) {
    for (int h = 0; h < a.heads_q; ++h) {
      for (int i = 0; i < a.seq_q; ++i) {
        const Row row = scores_of(problem, type, b, h, i);
        if (a.lse) {
          const float got =
              a.lse[b * a.lse_stride.batch + i * a.lse_stride.seq + h * a.lse_stride.head];
          const double want = row.sum == 0.0 ? -kInf : row.max + std::log(row.sum);
          if (!(got == want) && !(std::fabs(got - want) <= row.error + 1e-6)) {
            return fail("lse", b, h, i, -1, got, want);
          }
        }
        const long long v_head =
            b * a.v_stride.batch + h / (a.heads_q / a.heads_kv) * a.v_stride.head;
        for (int d = 0; d < a.value_head_dim; ++d) {
          double want = 0.0, size = 0.0;
          for (int j = 0; j < a.seq_k; ++j) {
            const double p = row.p[static_cast<std::size_t>(j)];
            if (p == 0.0) continue;
            const double term = p * load_as(type, a.v, v_head + j * a.v_stride.seq + d);
            want += term;
            size += std::fabs(term);
          }
          if (row.sum != 0.0) want /= row.sum, size /= row.sum;
          const long long at =
              b * a.out_stride.batch + i * a.out_stride.seq + h * a.out_stride.head + d;
          const double got = load_as(type, a.out, at);
          written[static_cast<std::size_t>(at)] = 1;
          const double allowed =
              unit * std::fabs(want) + size * (2 * row.error + product_unit + 4e-7) + 1e-7;
          if (!(std::fabs(got - want) <= allowed)) return fail("output", b, h, i, d, got, want);
          worst = std::max(worst, std::fabs(got - want) / allowed);
        }
      }
    }
  }
  for (std::size_t at = 0; at < out_size; ++at) {
    if (written[at]) continue;
    for (std::size_t byte = 0; byte < element; ++byte) {
      if (problem.out().data()[at * element + byte] != char(0xff)) {
        return fail("gap between rows", 0, 0, 0, int(at), 0, 0);
      }
    }
  }
  return true;
}

bool runs_here(CpuIsa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case CpuIsa::avx2:
      return avx2;
    case CpuIsa::avx512:
      return avx512;
    case CpuIsa::avx512_bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
    case CpuIsa::portable:
      break;
  }
#endif
  return isa == CpuIsa::portable;
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
    if (!runs_here(static_cast<CpuIsa>(isa))) continue;
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
  constexpr int kSkipped = 77;
  return done == 0 ? kSkipped : failed != 0;
}

}  // namespace
}  // namespace hipflash::bench

int main(int argc, char** argv) {
  return hipflash::bench::run(argc, argv);
}
