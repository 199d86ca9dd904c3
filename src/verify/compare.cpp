#include <algorithm>
#include <cmath>
#include <vector>

#include "core/fail.h"
#include "verify/convert.h"
#include "verify/reference.h"
#include "verify/sequences.h"

namespace hipflash::verify {
namespace {

// Where an element is, for messages: (batch, query, head, dimension); dimension -1 for the LSE.
struct Place {
  std::int64_t batch, query, head, dim;

  std::string text() const {
    if (dim < 0) return fmt::format("lse[batch {}, head {}, query {}]", batch, head, query);
    return fmt::format("out[batch {}, query {}, head {}, dim {}]", batch, query, head, dim);
  }
};

// Collects one tensor element by element; the bound is known only at the end.
class Collector {
 public:
  void add(double actual, double reference, double low, double slack, const Place& place) {
    if (!std::isfinite(reference)) {
      const bool same = std::isnan(reference) ? std::isnan(actual) : actual == reference;
      if (!same) note_wrong_kind(actual, reference, place);
      return;
    }
    slack_ = std::max(slack_, slack);
    largest_ = std::max(largest_, std::abs(reference));
    if (std::isfinite(low)) low_error_ = std::max(low_error_, std::abs(low - reference));
    if (!std::isfinite(actual)) {
      note_wrong_kind(actual, reference, place);
      return;
    }
    const double error = std::abs(actual - reference);
    if (error > result_.max_error) {
      result_.max_error = error;
      worst_ = place;
      worst_actual_ = actual;
      worst_reference_ = reference;
    }
  }

  double largest() const { return largest_; }

  Comparison finish(double factor, double floor) {
    result_.bound = factor * low_error_ + 2 * slack_ + floor;
    if (result_.ok && result_.max_error > result_.bound) {
      result_.ok = false;
      result_.fault = fmt::format(
          "{} is {:.9g}, the reference says {:.9g}: error {:.3g}, bound {:.3g}", worst_.text(),
          worst_actual_, worst_reference_, result_.max_error, result_.bound);
    }
    return result_;
  }

 private:
  void note_wrong_kind(double actual, double reference, const Place& place) {
    if (!result_.ok) return;
    result_.ok = false;
    result_.fault =
        fmt::format("{} is {}, the reference says {:.9g}", place.text(), actual, reference);
  }

  Comparison result_;
  double slack_ = 0, low_error_ = 0, largest_ = 0;
  Place worst_{};
  double worst_actual_ = 0, worst_reference_ = 0;
};

// Collects the LSE row by row: each has a bound of its own.
class RowCollector {
 public:
  // `bound` leaves out what finish() grants to all rows.
  void add(double actual, double reference, double low, double bound, const Place& place) {
    if (!std::isfinite(reference) || !std::isfinite(actual)) {
      const bool same = std::isnan(reference) ? std::isnan(actual) : actual == reference;
      if (!same && result_.ok) {
        result_.ok = false;
        result_.fault =
            fmt::format("{} is {}, the reference says {:.9g}", place.text(), actual, reference);
      }
      return;
    }
    if (std::isfinite(low)) low_error_ = std::max(low_error_, std::abs(low - reference));
    rows_.push_back({actual, reference, bound, place});
  }

  double low_error() const { return low_error_; }

  // Reports the row that is nearest to its bound, or furthest beyond it.
  Comparison finish(double granted) {
    double worst = -1;
    for (const Row& row : rows_) {
      const double error = std::abs(row.actual - row.reference), bound = row.bound + granted;
      if (error <= worst * bound) continue;
      worst = error / bound;
      result_.max_error = error;
      result_.bound = bound;
      if (error <= bound) continue;
      result_.ok = false;
      result_.fault =
          fmt::format("{} is {:.9g}, the reference says {:.9g}: error {:.3g}, bound {:.3g}",
                      row.place.text(), row.actual, row.reference, error, bound);
    }
    return result_;
  }

 private:
  struct Row {
    double actual, reference, bound;
    Place place;
  };
  Comparison result_;
  std::vector<Row> rows_;
  double low_error_ = 0;
};

// The length of the vector of `dim` elements from `base`; 0 if one is not finite.
double length_of(DType dtype, const void* data, std::int64_t base, std::int64_t dim) {
  double sum = 0;
  for (std::int64_t d = 0; d < dim; ++d) {
    const auto x = static_cast<double>(load(dtype, data, base + d));
    sum += x * x;
  }
  return std::isfinite(sum) ? std::sqrt(sum) : 0;
}

double longest_key(const Problem& p, const void* k, std::int64_t batch, std::int64_t head_kv) {
  double longest = 0;
  for (std::int64_t j = 0; j < p.seq_k; ++j) {
    const std::int64_t base = batch * p.k.batch + j * p.k.seq + head_kv * p.k.head;
    longest = std::max(longest, length_of(p.dtype, k, base, p.head_dim));
  }
  return longest;
}

// What the LSE of a row may be wrong by in a 16-bit type. Nothing on the way to it is rounded to
// that type: products of two 16-bit numbers are exact in f32, sums and exponentials are of f32. So
// the plain computation, which rounds scores, says nothing, and 1e-4 of the row's LSE is ample:
// errors measured over all suites and devices are below 1e-6 of max(1, |lse|) as a rule.
// Rows of long q and k are the exception. The sum that makes a score may cancel, and then its
// rounding is a part of what was added, up to |q| |k|, not of what came out; matrix units cut off
// instead of rounding, so each addition may lose 2^-23 of that. 2^-20 stands for eight in a row.
double row_bound_16bit(double lse, double scale, double query_length, double key_length) {
  return 1e-4 * std::max(1.0, std::abs(lse)) +
         0x1p-20 * std::abs(scale) * query_length * key_length;
}

// |(ref + 0.3 − 0.3) − ref| in the dtype's own arithmetic.
double rounding_slack(DType dtype, double reference) {
  const float value = round_to(dtype, static_cast<float>(reference));
  const float there = round_to(dtype, value + 0.3f);
  const float back = round_to(dtype, there - 0.3f);
  return std::isfinite(back) ? std::abs(static_cast<double>(back) - static_cast<double>(value)) : 0;
}

}  // namespace

Verdict compare(const Problem& problem, const TensorPointers& tensors, const Reference& reference,
                const Reference& low, const ReferenceOptions& options) {
  const double factor = problem.softcap > 0.0f ? 3 : 2;
  const bool has_lse = problem.features.lse && tensors.lse;
  Collector out;
  RowCollector lse;
  std::size_t out_at = 0, lse_at = 0;
  for (std::int64_t number = 0; number < dense_calls(problem); ++number) {
    const DenseCall call = dense_call(problem, tensors, number);
    const Problem& p = call.problem;
    const std::vector<std::int64_t> queries = queries_of(p, options);
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (const std::int64_t i : queries) {
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          const std::int64_t base = b * p.out.batch + i * p.out.seq + h * p.out.head;
          for (std::int64_t d = 0; d < p.value_head_dim; ++d, ++out_at) {
            out.add(static_cast<double>(load(p.dtype, call.tensors.out, base + d)),
                    reference.out[out_at], low.out[out_at],
                    rounding_slack(p.dtype, reference.out[out_at]), {call.sequence + b, i, h, d});
          }
        }
      }
      if (!has_lse) continue;
      const bool is_f32 = p.dtype == DType::f32;
      const std::int64_t group = p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
      double key_length = 0;
      for (std::int64_t h = 0; h < p.heads_q; ++h) {
        if (!is_f32 && !call.fault && h % group == 0) {
          key_length = longest_key(p, call.tensors.k, b, h / group);
        }
        for (const std::int64_t i : queries) {
          const std::int64_t place = b * p.lse.batch + i * p.lse.seq + h * p.lse.head;
          const double expected = reference.lse[lse_at];
          const double bound =
              is_f32
                  ? 1e-5 * std::max(1.0, std::abs(expected)) + 2 * rounding_slack(p.dtype, expected)
                  : row_bound_16bit(
                        expected, static_cast<double>(p.scale),
                        length_of(p.dtype, call.tensors.q,
                                  b * p.q.batch + i * p.q.seq + h * p.q.head, p.head_dim),
                        key_length);
          lse.add(static_cast<double>(call.tensors.lse[place]), expected, low.lse[lse_at], bound,
                  {call.sequence + b, i, h, -1});
          ++lse_at;
        }
      }
    }
  }
  Verdict verdict;
  // In f32 the plain computation of a few keys is all but exact, and the rule would ask for the
  // last bit: eight of them are granted.
  const double last_bits = problem.dtype == DType::f32 ? 1e-6 * std::max(1.0, out.largest()) : 0;
  verdict.out = out.finish(factor, last_bits);
  if (has_lse) {
    verdict.lse = lse.finish(problem.dtype == DType::f32 ? factor * lse.low_error() : 0);
  }
  return verdict;
}

std::string Verdict::text() const {
  if (!out.ok) return out.fault;
  if (!lse.ok) return lse.fault;
  std::string text = fmt::format("output error {:.3g} (bound {:.3g})", out.max_error, out.bound);
  if (lse.bound > 0) {
    text += fmt::format(", LSE error {:.3g} (bound {:.3g})", lse.max_error, lse.bound);
  }
  return text;
}

Verdict check(const Problem& problem, const TensorPointers& tensors,
              const ReferenceOptions& options) {
  return compare(problem, tensors, attention_f64(problem, tensors, options),
                 attention_low(problem, tensors, options), options);
}

}  // namespace hipflash::verify
