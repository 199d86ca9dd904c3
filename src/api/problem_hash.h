// Hashing of Problems, for the table of plans.
#pragma once

#include <cstddef>

#include "hipflash/problem.h"

namespace hipflash {

struct ProblemHash {
  std::size_t operator()(const Problem& problem) const noexcept;
};

}  // namespace hipflash
