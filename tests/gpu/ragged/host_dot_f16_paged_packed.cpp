#define HF_HOST_KERNEL f16_paged_packed
#define HF_HOST_RAGGED                                             \
  static constexpr bool ragged = true, paged = true, sinks = true; \
  static constexpr int pack_heads = 1;
#define HF_HOST_SPEC                                                                   \
  static constexpr ElementType element = ElementType::f16;                             \
  static constexpr int head_dim = 64, value_head_dim = 64;                             \
  static constexpr int threads = 64, tile_keys = 64, dim_chunk = 64, value_chunk = 64; \
  static constexpr bool window_left = true, window_right = true;                       \
  static constexpr bool softcap = true, alibi = true, bias = true;                     \
  static constexpr bool mask = true, split_keys = true, aligned = true;
#include "gpu/rdna/host_dot.h"
