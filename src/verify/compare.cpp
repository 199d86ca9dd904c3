#include <algorithm>
#include <cmath>

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
  Collector out, lse;
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
      for (std::int64_t h = 0; h < p.heads_q; ++h) {
        for (const std::int64_t i : queries) {
          const std::int64_t place = b * p.lse.batch + i * p.lse.seq + h * p.lse.head;
          lse.add(static_cast<double>(call.tensors.lse[place]), reference.lse[lse_at],
                  low.lse[lse_at], rounding_slack(DType::f32, reference.lse[lse_at]),
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
    const double unit = problem.dtype == DType::f32 ? 1e-5 : 1e-3;
    verdict.lse = lse.finish(factor, unit * std::max(1.0, lse.largest()));
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
