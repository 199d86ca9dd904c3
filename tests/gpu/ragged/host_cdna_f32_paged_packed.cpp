#define HF_HOST_KERNEL f32_paged_packed
#define HF_HOST_RAGGED                                             \
  static constexpr bool ragged = true, paged = true, sinks = true; \
  static constexpr int pack_heads = 1;
#define HF_HOST_SPEC                                                             \
  static constexpr ElementType element = ElementType::f32;                       \
  static constexpr int head_dim = 0, value_head_dim = 0;                         \
  static constexpr int waves = 4, mma_rows = 16, tile_keys = 16;                 \
  static constexpr int waves_per_simd = 2, read_ahead = 3, dies = 8, stages = 1; \
  static constexpr int largest_head_dim = 32;                                    \
  static constexpr bool window_left = true, window_right = true;                 \
  static constexpr bool softcap = true, alibi = true, bias = true;               \
  static constexpr bool mask = true, split_keys = true, aligned = false;         \
  static constexpr bool lse = true;
#include "gpu/cdna/host_kernel.h"
