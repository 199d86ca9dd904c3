#define HF_HOST_KERNEL f32_d40
#define HF_HOST_SPEC                                                                    \
  static constexpr ElementType element = ElementType::f32;                              \
  static constexpr int head_dim = 40, value_head_dim = 40;                              \
  static constexpr int threads = 128, tile_keys = 32, dim_chunk = 40, value_chunk = 64; \
  static constexpr bool window_left = true, window_right = true;                        \
  static constexpr bool softcap = true, alibi = true, bias = true, mask = true;         \
  static constexpr bool split_keys = false, aligned = false;
#include "host_dot.h"
