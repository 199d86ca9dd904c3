#include "platform/cpu/ragged_call.h"

#include <algorithm>
#include <cstdint>

namespace hipflash::platform {
namespace {

// Rows of sequence b of a packed tensor.
long long rows_between(const AttentionArgs& args, const void* offsets, int b) {
  if (args.offsets_are_64bit) {
    const auto* const cu = static_cast<const std::int64_t*>(offsets);
    return cu[b + 1] - cu[b];
  }
  const auto* const cu = static_cast<const std::int32_t*>(offsets);
  return static_cast<long long>(cu[b + 1]) - cu[b];
}

}  // namespace

CpuWork cut_ragged_call(AttentionArgs& args, const CpuLaunch& launch) {
  const long long group = args.heads_q / args.heads_kv;
  const long long block = launch.tile.tile_queries;
  long long most_queries = 0, most_keys = 0, seen_keys = 0;
  for (int b = 0; b < args.batch; ++b) {
    const long long queries =
        args.cu_seqlens_q ? rows_between(args, args.cu_seqlens_q, b) : args.seq_q;
    if (queries == 0) continue;
    long long keys = args.seq_k;
    if (args.kv_lengths) {
      keys = args.kv_lengths[b];
    } else if (args.cu_seqlens_k) {
      keys = rows_between(args, args.cu_seqlens_k, b);
    }
    if (args.kv_left_padding) keys -= args.kv_left_padding[b];
    most_queries = std::max(most_queries, queries);
    most_keys = std::max(most_keys, keys);
    seen_keys += keys * ((queries * group + block - 1) / block);
  }
  // The kernel holds lengths against args.seq_k, the capacity.
  AttentionArgs cut = args;
  cut.seq_q = static_cast<int>(most_queries);
  cut.seq_k = static_cast<int>(most_keys);
  args.splits = cut.splits =
      cpu_key_splits(cut, launch.tile, launch.threads, seen_keys * args.heads_kv);
  return plan_cpu_work(cut, launch.tile, launch.threads);
}

}  // namespace hipflash::platform
