#define HF_HOST_KERNEL f16_d96_split
#define HF_HOST_SPEC                                                                   \
  static constexpr ElementType element = ElementType::f16;                             \
  static constexpr int head_dim = 96, value_head_dim = 72;                             \
  static constexpr int threads = 64, tile_keys = 64, dim_chunk = 64, value_chunk = 64; \
  static constexpr bool window_left = true, window_right = true;                       \
  static constexpr bool softcap = false, alibi = false, bias = false, mask = false;    \
  static constexpr bool split_keys = true, aligned = true;
#include "host_dot.h"
