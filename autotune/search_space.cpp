#include "autotune/search_space.h"

#include <algorithm>
#include <cmath>

#include "autotune/sequences.h"
#include "core/format.h"
#include "plan/dense_problem.h"

namespace hipflash::autotune {
namespace {

// Hands out the list of candidates and gives the default.
class Listing final : public plan::TileSource {
 public:
  Answer find(const plan::TileKey&, const plan::TileNumbers&,
              const Candidates& candidates) const override {
    tiles = candidates();
    return {};
  }
  mutable std::vector<plan::TileNumbers> tiles;
};

double distance(const plan::TileNumbers& a, const plan::TileNumbers& b) {
  double apart = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i].second == b[i].second) continue;
    apart += 0.5 + std::abs(std::log2((a[i].second + 0.5) / (b[i].second + 0.5)));
  }
  return apart;
}

enum class Layout { dense, packed, paged };

struct Shape {
  DType dtype;
  int head_dim;
  bool causal;
  int batch, heads_q, heads_kv, seq_q, seq_k;
  Layout layout = Layout::dense;
};

Problem problem_of(const Shape& shape) {
  Problem p = plan::dense_problem({shape.dtype, shape.batch, shape.heads_q, shape.heads_kv,
                                   shape.seq_q, shape.seq_k, shape.head_dim, shape.causal});
  if (shape.layout == Layout::packed) {
    p.features.varlen = p.ragged.packed_q = p.ragged.packed_k = true;
  } else if (shape.layout == Layout::paged) {
    p.features.paged_kv = p.features.kv_cache = p.ragged.lengths = true;
    p.ragged.page_size = 16;
  }
  if (p.features.ragged()) lay_out_sequences(p);
  return p;
}

std::vector<Shape> cpu_shapes(bool full) {
  std::vector<Shape> shapes;
  const auto add = [&](DType dtype, int dim, bool causal, int seq) {
    shapes.push_back({dtype, dim, causal, 1, 4, 4, seq, seq});
  };
  for (const int seq : {512, 2048}) {
    for (const bool causal : {true, false}) {
      add(DType::f32, 64, causal, seq);
      add(DType::f32, 128, causal, seq);
      add(DType::bf16, 128, causal, seq);
    }
  }
  shapes.push_back({DType::f32, 32, false, 8, 12, 12, 128, 128});
  shapes.push_back({DType::f32, 128, true, 2, 4, 4, 512, 512, Layout::packed});
  if (!full) return shapes;
  for (const int seq : {128, 512, 2048, 8192}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const int dim : {32, 64, 96, 128, 256}) {
        for (const bool causal : {true, false}) add(dtype, dim, causal, seq);
      }
    }
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    shapes.push_back({dtype, 128, true, 1, 32, 8, 1, 4096});
    shapes.push_back({dtype, 64, true, 1, 32, 8, 1, 4096});
    shapes.push_back({dtype, 128, true, 4, 32, 8, 1, 2048, Layout::paged});
    shapes.push_back({dtype, 128, true, 1, 8, 2, 512, 4096, Layout::paged});
  }
  return shapes;
}

// As the field measures: 16384 tokens in all, hidden size 2048.
std::vector<Shape> gpu_shapes(bool full) {
  std::vector<Shape> shapes;
  const auto add = [&](DType dtype, int dim, bool causal, int seq) {
    const int tokens = full ? 16384 : 8192;
    const int heads = std::max(1, 2048 / dim);
    shapes.push_back({dtype, dim, causal, std::max(1, tokens / seq), heads, heads, seq, seq});
  };
  const std::vector<int> sizes = full ? std::vector<int>{2048, 8192, 512, 1024, 4096, 16384}
                                      : std::vector<int>{2048, 512, 8192};
  for (const int seq : sizes) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const int dim : {128, 64, 256}) {
        for (const bool causal : {true, false}) add(dtype, dim, causal, seq);
      }
      if (!full) break;
    }
  }
  for (const int keys : {4096, 16384}) {
    for (const int dim : {128, 64}) {
      shapes.push_back({DType::bf16, dim, true, 8, 32, 8, 1, keys});
    }
  }
  // As a server's steps: prompts packed one after another, and single queries and prompts over
  // pages.
  for (const int dim : {128, 64}) {
    shapes.push_back({DType::bf16, dim, true, 8, 32, 8, 1024, 1024, Layout::packed});
    shapes.push_back({DType::bf16, dim, true, 16, 32, 8, 1, 4096, Layout::paged});
    shapes.push_back({DType::bf16, dim, true, 4, 32, 8, 512, 4096, Layout::paged});
  }
  if (!full) return shapes;
  for (const int seq : {1024, 4096}) {
    for (const int dim : {32, 96, 192}) {
      for (const bool causal : {true, false}) add(DType::bf16, dim, causal, seq);
    }
  }
  for (const int seq : {2048, 8192}) {
    for (const int dim : {40, 80}) {
      for (const bool causal : {true, false}) add(DType::f16, dim, causal, seq);
    }
  }
  for (const int seq : {2048, 512, 8192}) {
    for (const int dim : {64, 128, 32, 96, 256}) {
      for (const bool causal : {true, false}) add(DType::f32, dim, causal, seq);
    }
  }
  return shapes;
}

std::vector<Problem> problems_of(const std::vector<Shape>& shapes) {
  std::vector<Problem> problems;
  for (const Shape& shape : shapes) {
    const Problem made = problem_of(shape);
    if (std::find(problems.begin(), problems.end(), made) == problems.end()) {
      problems.push_back(made);
    }
  }
  return problems;
}

}  // namespace

plan::TileSource::Answer OnlyTile::find(const plan::TileKey&, const plan::TileNumbers& standard,
                                        const Candidates& candidates) const {
  if (tile_ == standard) return {plan::TileOrigin::exact, {}, "asked for"};
  return {plan::TileOrigin::exact, plan::matching(tile_, candidates(), true), "asked for"};
}

std::vector<plan::TileNumbers> search_space(const Planner& planner, const Problem& problem,
                                            std::size_t most) {
  const Listing listing;
  const plan::TileNumbers standard = planner(problem, &listing).tile.numbers;
  std::vector<plan::TileNumbers> tiles = std::move(listing.tiles);
  std::erase(tiles, standard);
  std::stable_sort(tiles.begin(), tiles.end(), [&](const auto& a, const auto& b) {
    return distance(a, standard) < distance(b, standard);
  });
  if (tiles.size() > most) tiles.resize(most);
  tiles.insert(tiles.begin(), standard);
  return tiles;
}

std::string reason_to_skip(const CodeFacts& config, const CodeFacts& standard,
                           std::size_t shared_limit) {
  const auto spills = [](const CodeFacts& code) {
    return std::any_of(code.kernels.begin(), code.kernels.end(),
                       [](const KernelResources& kernel) { return kernel.spills(); });
  };
  if (config.format == CodeFormat::shared_object) return {};  // says nothing of registers
  for (const KernelResources& kernel : config.kernels) {
    if (shared_limit > 0 &&
        kernel.shared_bytes.value_or(0) > static_cast<std::int64_t>(shared_limit)) {
      return fmt::format("takes {} bytes of shared memory, the device has {}", *kernel.shared_bytes,
                         shared_limit);
    }
    if (kernel.waves_per_simd && *kernel.waves_per_simd < 1) {
      return "takes more registers than there are";
    }
  }
  if (spills(config) && !spills(standard)) return "spills registers";
  return {};
}

std::vector<Problem> common_problems(platform::Kind kind, bool full) {
  return problems_of(kind == platform::Kind::cpu ? cpu_shapes(full) : gpu_shapes(full));
}

std::vector<Problem> held_out_problems(platform::Kind kind) {
  std::vector<Shape> shapes;
  if (kind == platform::Kind::cpu) {
    for (const int seq : {700, 1536, 3000}) {
      for (const bool causal : {true, false}) {
        for (const int dim : {64, 128}) {
          shapes.push_back({DType::f32, dim, causal, 1, 3, 3, seq, seq});
        }
        shapes.push_back({DType::bf16, 128, causal, 1, 3, 3, seq, seq});
      }
    }
    for (const int seq : {96, 160, 200}) {
      shapes.push_back({DType::f32, 32, false, 6, 12, 12, seq, seq});
    }
    return problems_of(shapes);
  }
  for (const int seq : {768, 1536, 3000, 6144, 12288}) {
    for (const bool causal : {true, false}) {
      for (const int dim : {64, 128, 256}) {
        const int heads = 2048 / dim;
        shapes.push_back(
            {DType::bf16, dim, causal, std::max(1, 12288 / seq), heads, heads, seq, seq});
      }
    }
  }
  return problems_of(shapes);
}

bool make_measurable(Problem& problem) {
  const Features& has = problem.features;
  if (has.dropout || has.user_functions || problem.batch_invariant || problem.seq_q <= 0 ||
      problem.seq_k <= 0 || problem.batch <= 0 || problem.heads_q <= 0) {
    return false;
  }
  if (has.ragged()) {
    lay_out_sequences(problem);
  } else {
    const bool aligned = problem.aligned;
    problem.set_dense_bshd();
    problem.aligned = problem.aligned && aligned;
  }
  problem.bias = has.bias ? ScoreStrides{0, 0, problem.seq_k, 1} : ScoreStrides{};
  problem.mask = has.mask ? ScoreStrides{0, 0, problem.seq_k, 1} : ScoreStrides{};
  problem.alibi_batch_stride = 0;
  problem.alibi_head_stride = 1;
  return true;
}

}  // namespace hipflash::autotune
