// Rules of sizes and strides that every tensor of a call must follow. All throw
// Error(InvalidArgument) naming the argument, its value and the rule.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "hipflash/attention.h"
#include "hipflash/tensor.h"

namespace hipflash::api {

inline constexpr std::int64_t kMaxHeadDim = 512;
// Batch and heads are ints in kernels.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 30;

[[noreturn]] void invalid(const char* name, std::int64_t value, const char* rule);

void check_count(const char* name, std::int64_t value, std::int64_t most);

void check_dtype(const char* name, DType dtype);

struct Extent {
  std::int64_t size = 1, stride = 0;
};

// Every element's distance from the first must fit an int64 with room to spare.
void check_reach(const char* name, std::initializer_list<Extent> extents);

// Outputs must not overlap themselves: two threads would write one element. Sorted by stride, each
// dimension must step over everything that the smaller ones cover.
void check_disjoint(const char* name, std::array<Extent, 4> extents);

// `paged` has no table, so it must have no numbers either: they would be ignored.
void check_no_table(const char* name, const PagedKv& paged);

// A whole tensor: its dtype, sizes, reach and data.
enum class Access { read, written };
void check_tensor(const char* name, const Tensor& tensor, Access access);

// Whether every row starts on a multiple of 16 bytes and is as many whole pieces of 16.
bool whole_pieces(const Tensor& tensor) noexcept;

// A stride of a dimension of one element says nothing: 0, so that equal problems are equal.
Strides meaningful_strides(const Tensor& tensor) noexcept;

}  // namespace hipflash::api
