// Host builds of the kernel text that this program holds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/host_lanes.h"

// Members ragged, paged, sinks and pack_heads of a build's Spec.
#if !defined(HF_HOST_RAGGED)
#define HF_HOST_RAGGED                                                \
  static constexpr bool ragged = false, paged = false, sinks = false; \
  static constexpr int pack_heads = 0;
#endif

namespace cdna_test {

struct HostKernelFacts {
  std::string name;
  int element, head_dim, value_head_dim;  // head dims 0: from the arguments
  bool window_left, window_right, softcap, alibi, bias, mask, split_keys, aligned;
  int threads, queries;                             // of a block
  std::function<void(const void*)> forward, merge;  // one lane; AttentionArgs
  bool ragged = false, paged = false, sinks = false, pack_heads = false;
};

inline std::vector<HostKernelFacts>& host_kernels() {
  static std::vector<HostKernelFacts> all;
  return all;
}

struct HostKernel {
  explicit HostKernel(HostKernelFacts facts) { host_kernels().push_back(std::move(facts)); }
};

}  // namespace cdna_test
