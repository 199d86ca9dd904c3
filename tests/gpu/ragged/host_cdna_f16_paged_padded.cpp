#define HF_HOST_KERNEL f16_paged_padded
#define HF_HOST_RAGGED                                              \
  static constexpr bool ragged = true, paged = true, sinks = false; \
  static constexpr int pack_heads = 0;
#define HF_HOST_SPEC                                                             \
  static constexpr ElementType element = ElementType::f16;                       \
  static constexpr int head_dim = 40, value_head_dim = 72;                       \
  static constexpr int waves = 4, mma_rows = 32, tile_keys = 32;                 \
  static constexpr int waves_per_simd = 2, read_ahead = 3, dies = 8, stages = 1; \
  static constexpr int largest_head_dim = 512;                                   \
  static constexpr bool window_left = false, window_right = true;                \
  static constexpr bool softcap = false, alibi = false, bias = false;            \
  static constexpr bool mask = false, split_keys = false, aligned = true;        \
  static constexpr bool lse = true;
#include "gpu/cdna/host_kernel.h"
