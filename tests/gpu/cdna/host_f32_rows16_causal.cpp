#define HF_HOST_KERNEL f32_rows16_causal
#define HF_HOST_SPEC                                                             \
  static constexpr ElementType element = ElementType::f32;                       \
  static constexpr int head_dim = 64, value_head_dim = 64;                       \
  static constexpr int waves = 2, mma_rows = 16, tile_keys = 32;                 \
  static constexpr int waves_per_simd = 2, read_ahead = 3, dies = 8, stages = 1; \
  static constexpr int largest_head_dim = 64;                                    \
  static constexpr bool window_left = false, window_right = true;                \
  static constexpr bool softcap = true, alibi = true, bias = false;              \
  static constexpr bool mask = false, split_keys = false, aligned = true;        \
  static constexpr bool lse = true;
#include "host_kernel.h"
