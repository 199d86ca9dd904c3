#define HF_HOST_KERNEL f32_ragged
#define HF_HOST_RAGGED                                              \
  static constexpr bool ragged = true, paged = false, sinks = true; \
  static constexpr int pack_heads = 0;
#define HF_HOST_SPEC                                                                   \
  static constexpr ElementType element = ElementType::f32;                             \
  static constexpr int head_dim = 59, value_head_dim = 33;                             \
  static constexpr int threads = 64, tile_keys = 32, dim_chunk = 64, value_chunk = 64; \
  static constexpr bool window_left = false, window_right = true;                      \
  static constexpr bool softcap = false, alibi = false, bias = false;                  \
  static constexpr bool mask = false, split_keys = true, aligned = false;
#include "gpu/rdna/host_dot.h"
