#define HF_HOST_KERNEL bf16_d32_direct
#define HF_HOST_SPEC                                                             \
  static constexpr ElementType element = ElementType::bf16;                      \
  static constexpr int head_dim = 32, value_head_dim = 32;                       \
  static constexpr int waves = 4, mma_rows = 32, tile_keys = 64;                 \
  static constexpr int waves_per_simd = 2, read_ahead = 3, dies = 8, stages = 2; \
  static constexpr int largest_head_dim = 64;                                    \
  static constexpr bool window_left = false, window_right = true;                \
  static constexpr bool softcap = false, alibi = false, bias = false;            \
  static constexpr bool mask = false, split_keys = false, aligned = true;        \
  static constexpr bool lse = true;
#include "host_kernel.h"
