// The kernels that plans choose by default: every class of features at every kind of head
// dimension, and the operations beside attention.
#pragma once

#include <string>
#include <vector>

#include "hipflash/problem.h"
#include "jit/spec.h"

namespace hipflash::testing {

struct DefaultSpec {
  std::string dtype, features;  // "f16", "causal"
  int head_dim = 0, value_head_dim = 0;
  jit::Spec spec;
};

// How many of them.
enum class Extent {
  few,             // for architectures that are much like another one
  representative,  // all kinds at three head dimensions
  all,
};

// What plans for `arch` compile, each spec once.
std::vector<DefaultSpec> default_specs(const std::string& arch, Extent extent);

}  // namespace hipflash::testing
