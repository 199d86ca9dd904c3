#include "verify/reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "core/fail.h"
#include "verify/convert.h"
#include "verify/panel_product.h"
#include "verify/sequences.h"

namespace hipflash::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Keys first <= j < end.
struct Keys {
  std::int64_t first, end;
};

Keys visible_keys(const Problem& problem, std::int64_t i) {
  const std::int64_t position =
      i + (problem.alignment == MaskAlignment::bottom_right ? problem.seq_k - problem.seq_q : 0);
  std::int64_t right = problem.window.right;
  if (problem.causal && (right < 0 || right > 0)) right = 0;
  Keys keys{0, problem.seq_k};
  // A side that reaches beyond all keys is unbounded; compared this way nothing overflows.
  if (problem.window.left >= 0 && problem.window.left < problem.seq_q + problem.seq_k) {
    keys.first = std::clamp<std::int64_t>(position - problem.window.left, 0, problem.seq_k);
  }
  if (right >= 0 && right < problem.seq_q + problem.seq_k) {
    keys.end = std::clamp<std::int64_t>(position + right + 1, 0, problem.seq_k);
  }
  return keys;
}

std::int64_t panels(std::int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}

// K of one (batch, key/value head): panel p holds keys 16p.., as [dim][16]; padding is 0.
std::vector<float> pack_keys(const Problem& problem, const void* k, std::int64_t base) {
  const std::int64_t dim = problem.head_dim;
  std::vector<float> packed(static_cast<std::size_t>(panels(problem.seq_k) * kPanelColumns * dim));
  for (std::int64_t j = 0; j < problem.seq_k; ++j) {
    float* column = packed.data() + j / kPanelColumns * kPanelColumns * dim + j % kPanelColumns;
    for (std::int64_t d = 0; d < dim; ++d) {
      column[d * kPanelColumns] = load(problem.dtype, k, base + j * problem.k.seq + d);
    }
  }
  return packed;
}

// V of one (batch, key/value head): panel p holds dimensions 16p.., as [key][16]; padding is 0.
std::vector<float> pack_values(const Problem& problem, const void* v, std::int64_t base) {
  const std::int64_t dim = problem.value_head_dim;
  std::vector<float> packed(static_cast<std::size_t>(panels(dim) * kPanelColumns * problem.seq_k));
  for (std::int64_t j = 0; j < problem.seq_k; ++j) {
    for (std::int64_t d = 0; d < dim; ++d) {
      packed[static_cast<std::size_t>((d / kPanelColumns * problem.seq_k + j) * kPanelColumns +
                                      d % kPanelColumns)] =
          load(problem.dtype, v, base + j * problem.v.seq + d);
    }
  }
  return packed;
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// T = double is the reference, computed as the formula says. T = float is the plain computation:
// the same steps, each result rounded to the problem's dtype.
template <class T>
class Attention {
 public:
  Attention(const Problem& problem, const TensorPointers& tensors,
            const std::vector<std::int64_t>& queries, Reference* result)
      : problem_(problem), tensors_(tensors), queries_(queries), result_(*result) {}

  // Query rows [first, last) of all query heads of one key/value head, counted head by head.
  void run(std::int64_t batch, std::int64_t head_kv, std::int64_t first, std::int64_t last) const {
    const auto count = static_cast<std::int64_t>(queries_.size());
    const Packed packed(problem_, tensors_, batch, head_kv);
    const std::int64_t group = problem_.heads_q / problem_.heads_kv;
    Scratch scratch(problem_);
    for (std::int64_t row = first; row < last;) {
      const std::int64_t head = head_kv * group + row / count;
      const std::int64_t index = row % count;
      const std::int64_t rows = std::min<std::int64_t>({kPanelRows, last - row, count - index});
      block(packed, scratch, batch, head, index, static_cast<int>(rows));
      row += rows;
    }
  }

 private:
  struct Packed {
    Packed(const Problem& problem, const TensorPointers& tensors, std::int64_t b, std::int64_t h)
        : keys(pack_keys(problem, tensors.k, b * problem.k.batch + h * problem.k.head)),
          values(pack_values(problem, tensors.v, b * problem.v.batch + h * problem.v.head)),
          finite(all_finite(values)) {}
    std::vector<float> keys, values;
    bool finite;  // no infinity and no NaN among the values
  };

  struct Scratch {
    explicit Scratch(const Problem& problem)
        : q(static_cast<std::size_t>(kPanelRows * problem.head_dim)),
          stride(panels(problem.seq_k) * kPanelColumns),
          scores(static_cast<std::size_t>(kPanelRows * stride)),
          out(static_cast<std::size_t>(panels(problem.value_head_dim) * kPanelColumns)) {}
    std::vector<T> q;
    std::int64_t stride;
    std::vector<T> scores;
    std::vector<T> out;
  };

  T round(T value) const {
    if constexpr (std::is_same_v<T, float>) {
      return round_to(problem_.dtype, value);
    } else {
      return value;
    }
  }

  // Up to 4 queries of one head, from position `index` of the queries asked for.
  void block(const Packed& packed, Scratch& scratch, std::int64_t b, std::int64_t h,
             std::int64_t index, int rows) const {
    const std::int64_t dim = problem_.head_dim;
    Keys any{problem_.seq_k, 0};  // what some query of the block sees
    std::fill(scratch.q.begin(), scratch.q.end(), T{0});
    for (int r = 0; r < rows; ++r) {
      const std::int64_t i = queries_[static_cast<std::size_t>(index + r)];
      const Keys keys = visible_keys(problem_, i);
      if (keys.first < keys.end) {
        any = {std::min(any.first, keys.first), std::max(any.end, keys.end)};
      }
      const std::int64_t base = b * problem_.q.batch + h * problem_.q.head + i * problem_.q.seq;
      for (std::int64_t d = 0; d < dim; ++d) {
        scratch.q[static_cast<std::size_t>(r * dim + d)] =
            static_cast<T>(load(problem_.dtype, tensors_.q, base + d));
      }
    }
    if (any.first > any.end) any = {0, 0};
    T tile[kPanelRows * kPanelColumns];
    for (std::int64_t j = any.first / kPanelColumns * kPanelColumns; j < any.end;
         j += kPanelColumns) {
      product_(scratch.q.data(), dim, packed.keys.data() + j * dim, 0, dim, tile);
      for (int r = 0; r < kPanelRows; ++r) {
        std::copy_n(tile + r * kPanelColumns, kPanelColumns,
                    scratch.scores.data() + r * scratch.stride + j);
      }
    }
    for (int r = 0; r < rows; ++r) {
      const std::size_t lse_index = static_cast<std::size_t>(
          (b * problem_.heads_q + h) * static_cast<std::int64_t>(queries_.size()) + index + r);
      result_.lse[lse_index] = softmax(scratch.scores.data() + r * scratch.stride, any, b, h,
                                       queries_[static_cast<std::size_t>(index + r)]);
    }
    for (int r = rows; r < kPanelRows; ++r) {
      std::fill_n(scratch.scores.data() + r * scratch.stride, scratch.stride, T{0});
    }
    values(packed, scratch, any, b, h, index, rows);
  }

  // Turns raw products into probabilities, in place, over the keys of `any`; a hidden key gets
  // exactly 0. Returns the log-sum-exp.
  double softmax(T* scores, Keys any, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const Keys seen = visible_keys(problem_, i);
    const T slope =
        problem_.features.alibi && tensors_.alibi
            ? static_cast<T>(
                  tensors_.alibi[b * problem_.alibi_batch_stride + h * problem_.alibi_head_stride])
            : T{0};
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    T maximum = kHidden;
    bool has_nan = false;
    for (std::int64_t j = any.first; j < any.end; ++j) {
      T& score = scores[j];
      if (j < seen.first || j >= seen.end || masked(b, h, i, j)) {
        score = kHidden;
        continue;
      }
      score = round(score * static_cast<T>(problem_.scale));
      if (problem_.softcap > 0.0f) {
        const T cap = static_cast<T>(problem_.softcap);
        score = round(cap * std::tanh(score / cap));
      }
      if (problem_.features.alibi) {
        const auto distance = static_cast<T>(std::abs(i + problem_.seq_k - problem_.seq_q - j));
        score = round(score - slope * distance);
      }
      if (problem_.features.bias && tensors_.bias) {
        const auto bias = static_cast<T>(load(problem_.bias_dtype, tensors_.bias,
                                              b * problem_.bias.batch + h * problem_.bias.head +
                                                  i * problem_.bias.query + j * problem_.bias.key));
        score = bias == kHidden ? kHidden : round(score + bias);
      }
      has_nan = has_nan || std::isnan(score);
      maximum = std::max(maximum, score);
    }
    const T sink = problem_.features.sinks ? static_cast<T>(tensors_.sinks[h]) : kHidden;
    if (maximum == kHidden && !has_nan) {
      std::fill(scores + any.first, scores + any.end, T{0});
      return static_cast<double>(sink);
    }
    maximum = std::max(maximum, sink);
    T sum = sink == kHidden ? T{0} : std::exp(sink - maximum);
    for (std::int64_t j = any.first; j < any.end; ++j) {
      scores[j] = scores[j] == kHidden ? T{0} : std::exp(scores[j] - maximum);
      sum += scores[j];
    }
    for (std::int64_t j = any.first; j < any.end; ++j) scores[j] = round(scores[j] / sum);
    return static_cast<double>(maximum) + std::log(static_cast<double>(sum));
  }

  bool masked(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!problem_.features.mask || !tensors_.mask) return false;
    return static_cast<const unsigned char*>(
               tensors_.mask)[b * problem_.mask.batch + h * problem_.mask.head +
                              i * problem_.mask.query + j * problem_.mask.key] == 0;
  }

  void values(const Packed& packed, Scratch& scratch, Keys any, std::int64_t b, std::int64_t h,
              std::int64_t index, int rows) const {
    const std::int64_t dim = problem_.value_head_dim;
    T tile[kPanelRows * kPanelColumns];
    for (std::int64_t d = 0; d < dim; d += kPanelColumns) {
      const float* panel = packed.values.data() + d * problem_.seq_k;
      if (packed.finite) {
        product_(scratch.scores.data(), scratch.stride, panel, any.first, any.end, tile);
      } else {
        careful_product(scratch, panel, any, rows, tile);
      }
      const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, dim - d);
      for (int r = 0; r < rows; ++r) {
        const std::int64_t row =
            (b * static_cast<std::int64_t>(queries_.size()) + index + r) * problem_.heads_q + h;
        for (std::int64_t c = 0; c < columns; ++c) {
          result_.out[static_cast<std::size_t>(row * dim + d + c)] =
              static_cast<double>(round(tile[std::int64_t{r} * kPanelColumns + c]));
        }
      }
    }
  }

  // As the product of panel_product.h, but a value counts only where its probability is not 0: so
  // an infinity or NaN in V does not reach the rows that do not see it.
  void careful_product(const Scratch& scratch, const float* panel, Keys any, int rows,
                       T* tile) const {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < kPanelColumns; ++c) {
        T sum = 0;
        for (std::int64_t j = any.first; j < any.end; ++j) {
          const T probability = scratch.scores[static_cast<std::size_t>(r * scratch.stride + j)];
          if (probability != T{0}) {
            sum += probability * static_cast<T>(panel[j * kPanelColumns + c]);
          }
        }
        tile[std::int64_t{r} * kPanelColumns + c] = sum;
      }
    }
  }

  const Problem& problem_;
  const TensorPointers& tensors_;
  const std::vector<std::int64_t>& queries_;
  Reference& result_;
  PanelProduct<T> product_ = panel_product<T>();
};

void require_known(const Problem& problem) {
  const std::pair<bool, const char*> features[] = {
      {problem.features.dropout, "dropout"}, {problem.features.user_functions, "user_functions"}};
  for (const auto& [present, name] : features) {
    if (present) fail(ErrorCode::NotSupported, "verification: {} is not supported", name);
  }
}

template <class T>
Reference dense_attention(const Problem& problem, const TensorPointers& tensors,
                          const ReferenceOptions& options) {
  const std::vector<std::int64_t> queries = queries_of(problem, options);
  const auto count = static_cast<std::int64_t>(queries.size());

  Reference result;
  result.out.resize(
      static_cast<std::size_t>(problem.batch * count * problem.heads_q * problem.value_head_dim));
  result.lse.resize(static_cast<std::size_t>(problem.batch * problem.heads_q * count), -kInfinity);
  if (result.lse.empty()) return result;

  int threads = options.threads;
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // A part packs K and V of its head for itself, so it has enough rows to make up for that.
  constexpr std::int64_t kLeastRows = 64;
  const std::int64_t rows = problem.heads_q / problem.heads_kv * count;
  const std::int64_t part = std::max((rows + threads - 1) / threads, std::min(rows, kLeastRows));
  const std::int64_t parts = (rows + part - 1) / part;
  const std::int64_t items = problem.batch * problem.heads_kv * parts;

  const Attention<T> attention(problem, tensors, queries, &result);
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t item = next++; item < items; item = next++) {
      const std::int64_t head = item / parts;
      const std::int64_t first = item % parts * part;
      attention.run(head / problem.heads_kv, head % problem.heads_kv, first,
                    std::min(first + part, rows));
    }
  };
  std::vector<std::thread> helpers;
  // Not worth a thread below about a million products.
  const double products = static_cast<double>(items) * static_cast<double>(part) *
                          static_cast<double>(problem.seq_k) *
                          static_cast<double>(problem.head_dim + problem.value_head_dim);
  if (products > 1e6) {
    for (std::int64_t t = 1; t < std::min<std::int64_t>(threads, items); ++t) {
      helpers.emplace_back(work);
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return result;
}

template <class T>
Reference attention(const Problem& problem, const TensorPointers& tensors,
                    const ReferenceOptions& options) {
  require_known(problem);
  if (!problem.features.ragged()) return dense_attention<T>(problem, tensors, options);
  Reference all;
  for (std::int64_t number = 0; number < dense_calls(problem); ++number) {
    const DenseCall call = dense_call(problem, tensors, number);
    Reference one = dense_attention<T>(call.problem, call.tensors, options);
    if (call.fault) {
      std::fill(one.out.begin(), one.out.end(), kNan);
      std::fill(one.lse.begin(), one.lse.end(), kNan);
    }
    all.out.insert(all.out.end(), one.out.begin(), one.out.end());
    all.lse.insert(all.lse.end(), one.lse.begin(), one.lse.end());
  }
  return all;
}

}  // namespace

std::vector<std::int64_t> sample_queries(std::int64_t seq_q, std::int64_t count,
                                         std::uint64_t seed) {
  count = std::min(seq_q, count);
  std::vector<std::int64_t> queries(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  std::iota(queries.begin(), queries.end(), 0);
  if (count <= 1 || count == seq_q) return queries;
  std::mt19937_64 random(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t& query = queries[static_cast<std::size_t>(i)];
    if (seed == 0) {
      query = std::llround(static_cast<double>(i) * static_cast<double>(seq_q - 1) /
                           static_cast<double>(count - 1));
      continue;
    }
    const auto begins = [&](std::int64_t stretch) {
      return static_cast<std::int64_t>(static_cast<double>(stretch) * static_cast<double>(seq_q) /
                                       static_cast<double>(count));
    };
    const std::int64_t first = begins(i), size = begins(i + 1) - first;
    query = first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size));
  }
  queries.front() = 0;
  queries.back() = seq_q - 1;
  return queries;
}

std::vector<std::int64_t> queries_of(const Problem& problem, const ReferenceOptions& options) {
  return sample_queries(problem.seq_q,
                        options.most_queries > 0 ? options.most_queries : problem.seq_q,
                        options.sample_seed);
}

Reference attention_f64(const Problem& problem, const TensorPointers& tensors,
                        const ReferenceOptions& options) {
  return attention<double>(problem, tensors, options);
}

Reference attention_low(const Problem& problem, const TensorPointers& tensors,
                        const ReferenceOptions& options) {
  return attention<float>(problem, tensors, options);
}

}  // namespace hipflash::verify
