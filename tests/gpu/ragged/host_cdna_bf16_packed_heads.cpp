#define HF_HOST_KERNEL bf16_packed_heads
#define HF_HOST_RAGGED                                              \
  static constexpr bool ragged = true, paged = false, sinks = true; \
  static constexpr int pack_heads = 1;
#define HF_HOST_SPEC                                                             \
  static constexpr ElementType element = ElementType::bf16;                      \
  static constexpr int head_dim = 64, value_head_dim = 64;                       \
  static constexpr int waves = 4, mma_rows = 16, tile_keys = 32;                 \
  static constexpr int waves_per_simd = 2, read_ahead = 3, dies = 8, stages = 1; \
  static constexpr int largest_head_dim = 512;                                   \
  static constexpr bool window_left = true, window_right = true;                 \
  static constexpr bool softcap = true, alibi = true, bias = true;               \
  static constexpr bool mask = true, split_keys = true, aligned = true;          \
  static constexpr bool lse = true;
#include "gpu/cdna/host_kernel.h"
