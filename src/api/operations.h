// From a checked operation to its launch.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "api/context_impl.h"

namespace hipflash::api {

// What Context::Impl::operation() remembers an operation by.
template <class OperationProblem>
std::string bytes_of(char kind, OperationProblem problem) {
  static_assert(std::is_trivially_copyable_v<OperationProblem>);
  problem.forget_data();
  std::string bytes(1, kind);
  bytes.append(reinterpret_cast<const char*>(&problem), sizeof(problem));
  return bytes;
}

}  // namespace hipflash::api
