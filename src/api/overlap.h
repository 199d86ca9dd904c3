// What a call writes must not lie where it reads: other parts of the launch may still read there.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "api/extents.h"
#include "hipflash/problem.h"

namespace hipflash::api {

// Bytes that a tensor covers from its first element on, without gaps. What has gaps, or lies before
// its first element too, counts as that element alone; 0: nothing is read or written there. So what
// meets does overlap, and of what overlaps, dense tensors meet.
std::size_t footprint(std::size_t element, std::array<Extent, 4> extents) noexcept;
std::size_t footprint(const Tensor& tensor) noexcept;

struct Footprint {
  const char* name;  // of the argument
  const void* data;
  std::size_t bytes;
};
// Throws Error(InvalidArgument) naming the two if what is written meets one of the others.
void check_apart(const Footprint& written, std::span<const Footprint> others);

// The same for attention, whose footprints a plan knows.
struct Footprints {
  std::size_t q = 0, k = 0, v = 0, out = 0, lse = 0, bias = 0, mask = 0;
};
Footprints footprints_of(const Problem& problem) noexcept;

void check_overlap(const Footprints& bytes, const TensorPointers& tensors);

}  // namespace hipflash::api
