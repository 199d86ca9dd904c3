#define HF_HOST_KERNEL bf16_paged
#define HF_HOST_RAGGED                                              \
  static constexpr bool ragged = true, paged = true, sinks = false; \
  static constexpr int pack_heads = 0;
#define HF_HOST_SPEC                                                                    \
  static constexpr ElementType element = ElementType::bf16;                             \
  static constexpr int head_dim = 64, value_head_dim = 64;                              \
  static constexpr int threads = 128, tile_keys = 64, dim_chunk = 32, value_chunk = 64; \
  static constexpr bool window_left = true, window_right = true;                        \
  static constexpr bool softcap = false, alibi = false, bias = false;                   \
  static constexpr bool mask = false, split_keys = false, aligned = false;
#include "gpu/rdna/host_dot.h"
