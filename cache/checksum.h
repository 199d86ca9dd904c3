/// \file
/// BLAKE2b with 32 bytes of output, fed piece by piece.
#pragma once

#include <sodium.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hipflash::cache {

/// To be called before any function of libsodium. \throws Error(Internal).
void require_sodium();

using Digest = std::array<std::uint8_t, 32>;

class Checksum {
 public:
  Checksum();

  Checksum& update(std::span<const std::uint8_t> bytes);
  Checksum& update(std::string_view text);
  /// Length first, so that neighbouring fields cannot be read as one another.
  Checksum& update_field(std::string_view text);
  Checksum& update_number(std::uint64_t value);

  /// Once, at the end.
  Digest digest();

 private:
  crypto_generichash_state state_;
};

/// Lowercase hexadecimal.
std::string to_hex(const Digest& digest);

}  // namespace hipflash::cache
