// The inner product of the reference: 4 rows times a panel of 16 columns, terms added one after
// another, in float or double, for the best vector unit that the machine has.
#pragma once

#include <cstdint>

namespace hipflash::verify {

constexpr int kPanelRows = 4;
constexpr int kPanelColumns = 16;

// c[r][col] = sum over k in [begin, end) of a[r * a_stride + k] * panel[k * 16 + col]
template <class T>
using PanelProduct = void (*)(const T* a, std::int64_t a_stride, const float* panel,
                              std::int64_t begin, std::int64_t end, T* c);

template <class T>
PanelProduct<T> panel_product();  // for T = float and double

}  // namespace hipflash::verify
