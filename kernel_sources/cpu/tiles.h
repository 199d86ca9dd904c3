// What a plan needs to know about the CPU kernels' instruction sets: compiler options and tile
// configs. Compiled into the library only.
//
// The kernel text takes its instruction set from the options alone (the compiler's predefined
// macros), so text and options cannot disagree.
#pragma once

#include "cpu/work.h"

namespace hipflash {

enum class CpuIsa : int {
  portable = 0,     // vector extensions of GCC and Clang, the target's baseline
  avx2 = 1,         // AVX2, FMA, F16C
  avx512 = 2,       // AVX-512 F, BW, DQ, VL; products in f32
  avx512_bf16 = 3,  // and BF16: products of bf16 pairs; for bf16 tensors only
};

struct CpuIsaFacts {
  const char* name;
  int lanes;            // f32 per vector
  const char* options;  // compiler options, separated by spaces, the same for g++ and clang++
};

inline const CpuIsaFacts& cpu_isa_facts(CpuIsa isa) {
  static const CpuIsaFacts kFacts[] = {
      {"portable", 8, ""},
      {"avx2", 8, "-mavx2 -mfma -mf16c"},
      {"avx512", 16, "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl"},
      {"avx512_bf16", 16,
       "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16"},
  };
  return kFacts[static_cast<int>(isa)];
}

// Options of every CPU kernel. No -march=native (it misnames new processors) and nothing of
// -ffast-math (masks are infinities). Contraction is off so that compilers agree on roundings.
// -O2: -O3 compiles a tenth of a second longer for 1 to 2%. Loops of register blocks that start
// anywhere lose up to 5%.
constexpr const char* kCpuKernelOptions =
    "-std=c++20 -O2 -falign-loops=64 -pipe -fPIC -shared -ffp-contract=off -fno-math-errno "
    "-fno-trapping-math "
    "-fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -fvisibility=hidden -nostdlib -w "
    "-Wno-psabi";

// The best instruction set for tensors of `element`, of those that the processor has.
inline CpuIsa cpu_isa_for(ElementType element, bool has_avx2_fma_f16c, bool has_avx512_f_bw_dq_vl,
                          bool has_fast_avx512_bf16) {
  if (has_avx512_f_bw_dq_vl) {
    return has_fast_avx512_bf16 && element == ElementType::bf16 ? CpuIsa::avx512_bf16
                                                                : CpuIsa::avx512;
  }
  return has_avx2_fma_f16c ? CpuIsa::avx2 : CpuIsa::portable;
}

// The default tile config. Head dimensions are 0 for general configs.
inline CpuTile cpu_default_tile(CpuIsa isa, ElementType /*element*/, int /*head_dim*/,
                                int /*value_head_dim*/) {
  switch (isa) {
    case CpuIsa::avx512_bf16:
      return {64, 256, 8, 2};
    case CpuIsa::avx512:
      return {120, 128, 6, 4};
    case CpuIsa::avx2:
      return {60, 256, 6, 2};
    case CpuIsa::portable:
      break;
  }
  return {64, 256, 4, 1};
}

}  // namespace hipflash
