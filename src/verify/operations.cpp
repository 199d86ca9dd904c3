#include "verify/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/format.h"
#include "verify/convert.h"

// The kernel's own look at a sequence.
#define HF_DEVICE inline
#include "common/append_place.h"
#undef HF_DEVICE

namespace hipflash::verify {
namespace {

// Half of the distance of neighbouring numbers of this size.
double rounding(DType dtype, double x) {
  const auto [unit, least] = dtype == DType::f16    ? std::pair(0x1p-11, 0x1p-25)
                             : dtype == DType::bf16 ? std::pair(0x1p-8, 0x1p-134)
                                                    : std::pair(0x1p-24, 0x1p-150);
  return std::max(std::abs(x) * unit, least);
}

// What the f32 operations on the way lose where they round to subnormal numbers.
constexpr double kSubnormalLoss = 0x1p-146;

// `size`: the sum of the sizes of what was added; `share`: how much of it f32 may lose.
bool near(DType dtype, double got, double wanted, double size, double share) {
  if (!std::isfinite(wanted) || !std::isfinite(size)) return !std::isfinite(got);
  if (got == static_cast<double>(round_to(dtype, static_cast<float>(wanted)))) return true;
  return std::abs(got - wanted) <= 1.01 * rounding(dtype, wanted) + share * size + kSubnormalLoss;
}

long long at(const RowStrides& stride, long long batch, long long row, long long head) {
  return batch * stride.batch + row * stride.seq + head * stride.head;
}

// A row of a new tensor, and where it is after the call.
struct MovedRow {
  const void* from;
  long long from_at;
  const void* to;
  long long to_at;
  int dim;
};

std::string wrong_copy(const MovedRow& row, DType dtype, int first) {
  const std::size_t element = size_of(dtype);
  const auto byte = [&](const void* data, long long index) {
    return static_cast<const char*>(data) + index * static_cast<long long>(element);
  };
  for (int d = first; d < row.dim; ++d) {
    if (std::memcmp(byte(row.from, row.from_at + d), byte(row.to, row.to_at + d), element) == 0) {
      continue;
    }
    return fmt::format("element {} is {:.9g}, not the new row's {:.9g}", d,
                       load(dtype, row.to, row.to_at + d), load(dtype, row.from, row.from_at + d));
  }
  return {};
}

std::string wrong_rotation(const MovedRow& row, DType dtype, const AppendArgs& args, int position) {
  const auto table = static_cast<DType>(args.table_type);
  const int half = args.rotary_dim / 2;
  for (int pair = 0; pair < half; ++pair) {
    const int first = args.rotary_interleaved ? 2 * pair : pair;
    const int second = args.rotary_interleaved ? first + 1 : pair + half;
    const long long angle = position * args.table_stride + pair;
    const double c = load(table, args.cosine, angle), s = load(table, args.sine, angle);
    const double x = load(dtype, row.from, row.from_at + first);
    const double y = load(dtype, row.from, row.from_at + second);
    const double size = std::abs(x) + std::abs(y);
    const std::pair<int, double> turned[] = {{first, x * c - y * s}, {second, x * s + y * c}};
    for (const auto& [d, wanted] : turned) {
      const double got = load(dtype, row.to, row.to_at + d);
      if (near(dtype, got, wanted, size, 3e-7)) continue;
      return fmt::format("element {} at position {} is {:.9g}, the reference says {:.9g}", d,
                         position, got, wanted);
    }
  }
  return wrong_copy(row, dtype, args.rotary_dim);
}

}  // namespace

std::string wrong_append(const AppendArgs& before, const AppendArgs& after, DType dtype) {
  for (int b = 0; b < before.batch; ++b) {
    const AppendSequence one = append_sequence(before, b);
    if (one.fault != kNoFault) continue;
    if (after.new_lengths && after.new_lengths[b] != one.length + one.rows) {
      return fmt::format("new_lengths[{}] = {}, not {}", b, after.new_lengths[b],
                         one.length + one.rows);
    }
    for (int i = 0; i < one.rows; ++i) {
      const long long batch = before.cu_seqlens ? 0 : b;
      const long long from = before.cu_seqlens ? one.first + i : i;
      const int position = one.length + i;
      const AppendPlace place = append_place(before, one, position);
      const auto found = [&](const char* what, int head, const std::string& wrong) {
        return fmt::format("{} of sequence {}, new row {}, head {}: {}", what, b, i, head, wrong);
      };
      for (int h = 0; place.fault == kNoFault && h < before.heads_kv; ++h) {
        const MovedRow key = {before.k_new, at(before.k_new_stride, batch, from, h), after.k,
                              at(before.k_stride, place.batch, place.row, h), before.head_dim};
        if (auto wrong = wrong_rotation(key, dtype, before, position); !wrong.empty()) {
          return found("the key", h, wrong);
        }
        const MovedRow value = {before.v_new, at(before.v_new_stride, batch, from, h), after.v,
                                at(before.v_stride, place.batch, place.row, h),
                                before.value_head_dim};
        if (auto wrong = wrong_copy(value, dtype, 0); !wrong.empty()) {
          return found("the value", h, wrong);
        }
      }
      for (int h = 0; before.q && h < before.heads_q; ++h) {
        const MovedRow query = {before.q, at(before.q_stride, batch, from, h), after.q_out,
                                at(before.q_out_stride, batch, from, h), before.head_dim};
        if (auto wrong = wrong_rotation(query, dtype, before, position); !wrong.empty()) {
          return found("the query", h, wrong);
        }
      }
    }
  }
  return {};
}

namespace {

// One row of all results.
std::string wrong_merged_row(const MergeArgs& before, const MergeArgs& after, DType dtype,
                             DType part_dtype, long long b, long long s, long long h) {
  struct Seen {
    const MergePart* part;
    long long n;
    double lse;
  };
  std::vector<Seen> seen;
  double largest = -INFINITY;
  for (int p = 0; p < before.parts; ++p) {
    const MergePart& part = before.part[p];
    for (long long n = 0; n < part.count; ++n) {
      const double lse = part.lse[n * part.lse_step + at(part.lse_stride, b, s, h)];
      if (lse == -INFINITY) continue;
      seen.push_back({&part, n, lse});
      largest = std::max(largest, lse);
    }
  }
  double sum = 0;
  for (const Seen& one : seen) sum += std::exp(one.lse - largest);
  const double lse = seen.empty() ? -INFINITY : largest + std::log(sum);
  if (after.lse) {
    const double got = after.lse[at(before.lse_stride, b, s, h)];
    const double bound = 1e-5 * std::max(1.0, std::abs(lse));
    const bool right = std::isfinite(lse) ? std::abs(got - lse) <= bound
                       : seen.empty()     ? got == lse
                                          : !std::isfinite(got);
    if (!right) return fmt::format("lse is {:.9g}, the reference says {:.9g}", got, lse);
  }
  for (int d = 0; d < before.dim; ++d) {
    double wanted = 0, size = 0;
    for (const auto& [part, n, own] : seen) {
      const long long index = n * part->out_step + at(part->out_stride, b, s, h) + d;
      const double term = std::exp(own - lse) * load(part_dtype, part->out, index);
      wanted += term;
      size += std::abs(term);
    }
    const double got = load(dtype, after.out, at(before.out_stride, b, s, h) + d);
    // A weight is exp of a difference of numbers of f32, whose error grows with their size.
    if (near(dtype, got, wanted, size, 4e-6 + 2e-7 * std::abs(largest))) continue;
    return fmt::format("element {} is {:.9g}, the reference says {:.9g}", d, got, wanted);
  }
  return {};
}

}  // namespace

std::string wrong_merge(const MergeArgs& before, const MergeArgs& after, DType dtype,
                        DType part_dtype) {
  for (long long b = 0; b < before.batch; ++b) {
    for (long long s = 0; s < before.seq; ++s) {
      for (long long h = 0; h < before.heads; ++h) {
        const std::string wrong = wrong_merged_row(before, after, dtype, part_dtype, b, s, h);
        if (!wrong.empty()) return fmt::format("batch {}, row {}, head {}: {}", b, s, h, wrong);
      }
    }
  }
  return {};
}

}  // namespace hipflash::verify
