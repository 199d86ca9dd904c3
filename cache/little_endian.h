/// \file
/// Numbers in files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipflash::cache {

template <typename T>
void store_little_endian(T value, std::uint8_t* to) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::uint8_t>((value >> (8 * i)) & 0xff);
  }
}

template <typename T>
T load_little_endian(const std::uint8_t* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{from[i]} << (8 * i));
  return value;
}

}  // namespace hipflash::cache
