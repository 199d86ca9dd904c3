// How a planned kernel is launched, and what launches it.
#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include "common/attention_args.h"
#include "cpu/work.h"
#include "gpu/tiles_nv.h"
#include "hipflash/device.h"

namespace hipflash::platform {

struct LaunchShape {
  unsigned blocks = 0;  // one-dimensional grid; 0: not launched
  unsigned threads = 0;
  unsigned shared_bytes = 0;  // dynamic
  // The kernel itself waits for the one before it in the stream, so it may begin while that runs.
  bool begins_early = false;
  unsigned thread_rows = 1;  // of the block's threads, which have a second dimension
};

struct CpuLaunch {
  CpuWork work = {};
  std::size_t partial_bytes = 0;  // partial results of split keys
  // Ragged calls are cut up anew when they run: their lengths are on the host.
  bool ragged = false;
  CpuTile tile = {};
  int threads = 1;
};

struct GpuLaunch {
  LaunchShape forward, merge;
  std::size_t partial_bytes = 0;
  // Families that hand out pieces of work: blocks of `forward` when the counter cannot be used.
  unsigned pieces = 0;
  // The wgmma family takes tensor maps of Q, K and V after the arguments.
  std::optional<Sm90Tile> tensor_maps;
  bool bf16 = false;  // element type of the tensor maps; else f16
};

// Bytes of the partial results of args.splits parts of the keys; 0 for one part.
inline std::size_t partial_bytes(const AttentionArgs& args) {
  if (args.splits <= 1) return 0;
  const std::size_t rows = static_cast<std::size_t>(args.partial_batch) *
                           static_cast<std::size_t>(args.heads_q) *
                           static_cast<std::size_t>(args.partial_seq);
  return static_cast<std::size_t>(args.splits) * rows *
         (static_cast<std::size_t>(args.value_head_dim) + 1) * sizeof(float);
}

// Lays the partial results of split keys out in `memory`: all outputs, whose rows thus begin where
// vectors of floats may, then all LSEs.
inline void place_partials(AttentionArgs& args, float* memory) {
  args.partial_out = memory;
  args.partial_lse = memory + static_cast<long long>(args.splits) * args.partial_batch *
                                  args.heads_q * args.partial_seq * args.value_head_dim;
}

using Launch = std::variant<CpuLaunch, GpuLaunch>;

// A loaded kernel with its launch: runs any number of times, from any thread.
class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  virtual ~Runner() = default;

  // `args` has the call's pointers, and is the runner's to change: it is large, and copying it
  // would be a good part of what a call costs. On a GPU this enqueues on the stream; on the CPU it
  // computes.
  virtual void run(AttentionArgs&& args, Stream stream) const = 0;
};

}  // namespace hipflash::platform
