// The tile vocabulary of Hopper (sm_90a): wgmma on swizzled shared tiles, TMA copies, mbarriers, as
// instructions or, with HF_HOST, as plain C++.
#pragma once

namespace hipflash {

struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// Position in a ring of buffers: which one, and the parity of its barriers' phase.
template <int kStages>
struct Ring {
  static_assert((kStages & (kStages - 1)) == 0, "a power of two, so that one counter holds both");
  unsigned count;
  HF_DEVICE int stage() const { return count % kStages; }
  HF_DEVICE int parity() const { return count / kStages & 1; }
  HF_DEVICE void advance() { count++; }
};

// Where an operand lies: slabs of 64 columns (128 bytes, 128-byte swizzle), 8 rows every 1024
// bytes. `slab` is the distance of slabs and counts only where an operand spans several of them
// (V). Offsets are added to the finished descriptor, so that the constant ones cost one uniform
// addition.
struct Operand {
  unsigned low;

  HF_DEVICE Operand(unsigned address, int slab) : low(address >> 4 | (unsigned)(slab >> 4) << 16) {}
  HF_DEVICE unsigned long long at(int bytes) const {
    return (unsigned long long)(low + (bytes >> 4)) | (unsigned long long)(1024 >> 4) << 32 |
           1ull << 62;
  }
};

}  // namespace hipflash

#if defined(HF_HOST)
#include "gpu/tile/nv/host_sm90.h"
#else
#include "gpu/tile/nv/ptx_sm90.h"
#endif
