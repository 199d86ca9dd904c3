#include "api/extents.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/fail.h"
#include "plan/mask_bounds.h"

namespace hipflash::api {

void invalid(const char* name, std::int64_t value, const char* rule) {
  fail(ErrorCode::InvalidArgument, "{} = {} {}", name, value, rule);
}

void check_count(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 0) invalid(name, value, "must not be negative");
  if (value > most)
    fail(ErrorCode::InvalidArgument, "{} = {} must be at most {}", name, value, most);
}

void check_dtype(const char* name, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32) {
    invalid(name, static_cast<std::int64_t>(dtype), "is not a dtype (f16 0, bf16 1, f32 2)");
  }
}

void check_reach(const char* name, std::initializer_list<Extent> extents) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  std::int64_t reach = 0;
  for (const auto [size, stride] : extents) {
    std::int64_t step = 0;
    if (size > 1 &&
        (stride == INT64_MIN || __builtin_mul_overflow(size - 1, std::abs(stride), &step) ||
         __builtin_add_overflow(reach, step, &reach) || reach > most)) {
      fail(ErrorCode::InvalidArgument,
           "{} stride {} over {} positions reaches further than 2^60 elements", name, stride, size);
    }
  }
}

void check_disjoint(const char* name, std::array<Extent, 4> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::abs(a.stride) < std::abs(b.stride);
  });
  std::int64_t covered = 1;
  for (const auto [size, stride] : extents) {
    if (size <= 1) continue;
    if (std::abs(stride) < covered) {
      fail(ErrorCode::InvalidArgument,
           "{} stride {} makes elements of the output overlap: it must be at least {}", name,
           stride, covered);
    }
    covered = std::abs(stride) * (size - 1) + covered;
  }
}

void check_no_table(const char* name, const PagedKv& paged) {
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"rows", paged.rows}, {"columns", paged.columns}, {"row_stride", paged.row_stride}};
  for (const auto& [field, number] : numbers) {
    if (number == 0) continue;
    fail(ErrorCode::InvalidArgument, "{}.{} = {} must be 0 where {}.block_table is null", name,
         field, number, name);
  }
}

void check_tensor(const char* name, const Tensor& t, Access access) {
  const auto field = [&](const char* part) { return fmt::format("{}.{}", name, part); };
  check_dtype(field("dtype").c_str(), t.dtype);
  check_count(field("batch").c_str(), t.batch, kMaxCount);
  check_count(field("seq").c_str(), t.seq, plan::kMaxSequence);
  check_count(field("heads").c_str(), t.heads, kMaxCount);
  check_count(field("dim").c_str(), t.dim, kMaxHeadDim);
  if (t.dim < 1) invalid(field("dim").c_str(), t.dim, "must be 1 to 512");
  const Strides& s = t.stride;
  check_reach(name, {{t.batch, s.batch}, {t.seq, s.seq}, {t.heads, s.head}});
  if (t.batch == 0 || t.seq == 0 || t.heads == 0) return;
  if (access == Access::written) {
    check_disjoint(name, {{{t.batch, s.batch}, {t.seq, s.seq}, {t.heads, s.head}, {t.dim, 1}}});
  }
  if (!t.data) fail(ErrorCode::InvalidArgument, "{}.data = null must point to the tensor", name);
  if (reinterpret_cast<std::uintptr_t>(t.data) % size_of(t.dtype) != 0) {
    fail(ErrorCode::InvalidArgument, "{}.data = {} must be a multiple of its element size, {}",
         name, fmt::ptr(t.data), size_of(t.dtype));
  }
}

Strides meaningful_strides(const Tensor& t) noexcept {
  return {t.batch > 1 ? t.stride.batch : 0, t.seq > 1 ? t.stride.seq : 0,
          t.heads > 1 ? t.stride.head : 0};
}

bool whole_pieces(const Tensor& t) noexcept {
  const auto elements = static_cast<std::int64_t>(16 / size_of(t.dtype));
  const Strides s = meaningful_strides(t);
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && s.batch % elements == 0 &&
         s.seq % elements == 0 && s.head % elements == 0 && t.dim % elements == 0;
}

}  // namespace hipflash::api
