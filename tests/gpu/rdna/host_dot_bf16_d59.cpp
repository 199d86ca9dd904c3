#define HF_HOST_KERNEL bf16_d59
#define HF_HOST_SPEC                                                                    \
  static constexpr ElementType element = ElementType::bf16;                             \
  static constexpr int head_dim = 59, value_head_dim = 59;                              \
  static constexpr int threads = 128, tile_keys = 64, dim_chunk = 60, value_chunk = 64; \
  static constexpr bool window_left = false, window_right = true;                       \
  static constexpr bool softcap = false, alibi = false, bias = false, mask = true;      \
  static constexpr bool split_keys = false, aligned = false;
#include "host_dot.h"
