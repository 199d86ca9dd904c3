#include "verify/panel_product.h"

#include <cstddef>
#include <cstring>

namespace hipflash::verify {
namespace {

// 64 bytes of T, and as many floats: the compiler splits them for narrower vector units.
template <class T>
struct Vectors;

template <>
struct Vectors<float> {
  typedef float Wide __attribute__((vector_size(64)));
  typedef float Narrow __attribute__((vector_size(64)));
};

template <>
struct Vectors<double> {
  typedef double Wide __attribute__((vector_size(64)));
  typedef float Narrow __attribute__((vector_size(32)));
};

template <class T>
[[gnu::always_inline]] inline void product(const T* a, std::int64_t a_stride, const float* panel,
                                           std::int64_t begin, std::int64_t end, T* c) {
  using Wide = typename Vectors<T>::Wide;
  using Narrow = typename Vectors<T>::Narrow;
  constexpr int kLanes = 64 / static_cast<int>(sizeof(T));
  constexpr int kVectors = kPanelColumns / kLanes;
  Wide sums[kPanelRows][kVectors] = {};
  for (std::int64_t k = begin; k < end; ++k) {
    Wide b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Narrow narrow;
      std::memcpy(&narrow, panel + k * kPanelColumns + std::ptrdiff_t{v} * kLanes, sizeof narrow);
      b[v] = __builtin_convertvector(narrow, Wide);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kPanelRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r * a_stride + k] * b[v];
    }
  }
  std::memcpy(c, sums, sizeof sums);
}

template <class T>
void product_portable(const T* a, std::int64_t a_stride, const float* panel, std::int64_t begin,
                      std::int64_t end, T* c) {
  product<T>(a, a_stride, panel, begin, end, c);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma")]] void product_avx2(const T* a, std::int64_t a_stride, const float* panel,
                                              std::int64_t begin, std::int64_t end, T* c) {
  product<T>(a, a_stride, panel, begin, end, c);
}

template <class T>
[[gnu::target("avx512f")]] void product_avx512(const T* a, std::int64_t a_stride,
                                               const float* panel, std::int64_t begin,
                                               std::int64_t end, T* c) {
  product<T>(a, a_stride, panel, begin, end, c);
}
#endif

}  // namespace

template <class T>
PanelProduct<T> panel_product() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return product_avx512<T>;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return product_avx2<T>;
#endif
  return product_portable<T>;
}

template PanelProduct<float> panel_product<float>();
template PanelProduct<double> panel_product<double>();

}  // namespace hipflash::verify
