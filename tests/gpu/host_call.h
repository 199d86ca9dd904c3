// One call of the host build of a kernel text (gpu/cdna/host_kernel.h), with the arguments that the
// library would give it.
#pragma once

#include <sanitizer/asan_interface.h>

#include <array>
#include <cmath>
#include <vector>

#include "gpu/cdna/host_registry.h"
#include "gpu/host_lanes.h"
#include "numerics/attention_case.h"
#include "plan/kernel_facts.h"
#include "plan/mask_bounds.h"
#include "plan/row_tiles.h"

namespace hipflash::testing {

using cdna_test::HostKernelFacts;

struct Split {
  int parts, keys_per_split;
};

// Whether the build can do what the problem needs; one that can do more will do.
inline bool serves(const HostKernelFacts& kernel, const Problem& problem, Split split) {
  const plan::KernelFacts need = plan::facts_of(problem, plan::mask_bounds(problem));
  return kernel.paged == need.paged && kernel.window_left >= need.window_left &&
         kernel.window_right >= need.window_right && kernel.softcap >= need.softcap &&
         kernel.alibi >= need.alibi && kernel.bias >= need.bias && kernel.mask >= need.mask &&
         kernel.sinks >= need.sinks && kernel.split_keys >= (split.parts > 1) &&
         kernel.aligned <= need.aligned;
}

// Makes what lies before and behind a tensor's rows nobody's, while it lives.
class Closed {
 public:
  explicit Closed(OwnedTensor& tensor) : memory_(tensor.memory()) {
    __asan_poison_memory_region(memory_.data(), tensor.offset());
    __asan_poison_memory_region(memory_.data() + tensor.end(), memory_.size() - tensor.end());
  }
  Closed(const Closed&) = delete;
  ~Closed() { __asan_unpoison_memory_region(memory_.data(), memory_.size()); }

 private:
  std::vector<std::uint8_t>& memory_;
};

class HostCall {
 public:
  // `data` is AttentionData or RaggedData.
  template <class Data>
  HostCall(const HostKernelFacts& kernel, Data& data, Split split)
      : kernel_(kernel), problem_(data.problem()), tensors_{&data.q, &data.k, &data.v, &data.out} {
    data.poison();
    args_ = plan::arguments_of(problem_, plan::mask_bounds(problem_));
    const TensorPointers t = data.pointers();
    args_.q = t.q, args_.k = t.k, args_.v = t.v, args_.out = t.out, args_.lse = t.lse;
    args_.bias = t.bias, args_.mask = static_cast<const unsigned char*>(t.mask);
    args_.alibi = t.alibi, args_.sinks = t.sinks;
    args_.cu_seqlens_q = t.cu_seqlens_q, args_.cu_seqlens_k = t.cu_seqlens_k;
    args_.kv_lengths = t.kv_lengths, args_.kv_batch_index = t.kv_batch_index;
    args_.kv_left_padding = t.kv_left_padding, args_.block_table = t.block_table;
    args_.fault = &fault_;
    args_.splits = split.parts;
    args_.keys_per_split = split.keys_per_split;
    const std::size_t rows =
        static_cast<std::size_t>(args_.partial_batch) * static_cast<std::size_t>(args_.heads_q) *
        static_cast<std::size_t>(args_.partial_seq) * static_cast<std::size_t>(split.parts);
    partial_out_.assign(rows * static_cast<std::size_t>(args_.value_head_dim), NAN);
    partial_lse_.assign(rows, NAN);
    if (split.parts > 1) args_.partial_out = partial_out_.data();
    if (split.parts > 1) args_.partial_lse = partial_lse_.data();
  }

  AttentionArgs& args() { return args_; }

  // Returns the fault.
  int run(host_lanes::Order order) {
    const Closed q(*tensors_[0]), k(*tensors_[1]), v(*tensors_[2]), out(*tensors_[3]);
    const int heads = kernel_.pack_heads ? args_.heads_kv : args_.heads_q;
    const long long blocks = plan::row_tiles(problem_, args_, kernel_.queries, kernel_.pack_heads) *
                             heads * args_.splits;
    for (int block = 0; block < blocks; block++) {
      host_lanes::run_block(block, kernel_.threads, order, [&] { kernel_.forward(&args_); });
    }
    if (args_.splits == 1) return fault_;
    const long long elements = static_cast<long long>(args_.partial_batch) * args_.heads_q *
                               args_.partial_seq * args_.value_head_dim;
    for (int block = 0; block * 256LL < elements; block++) {
      host_lanes::run_block(block, 256, order, [&] { kernel_.merge(&args_); });
    }
    return fault_;
  }

 private:
  const HostKernelFacts& kernel_;
  Problem problem_;
  std::array<OwnedTensor*, 4> tensors_;
  AttentionArgs args_ = {};
  int fault_ = 0;
  std::vector<float> partial_out_, partial_lse_;
};

}  // namespace hipflash::testing
