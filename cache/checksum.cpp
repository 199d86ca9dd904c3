#include "cache/checksum.h"

#include "core/fail.h"

namespace hipflash::cache {

void require_sodium() {
  static const int status = sodium_init();
  if (status < 0) fail(ErrorCode::Internal, "libsodium cannot be initialized");
}

Checksum::Checksum() {
  require_sodium();
  crypto_generichash_init(&state_, nullptr, 0, Digest().size());
}

Checksum& Checksum::update(std::span<const std::uint8_t> bytes) {
  crypto_generichash_update(&state_, bytes.data(), bytes.size());
  return *this;
}

Checksum& Checksum::update(std::string_view text) {
  return update(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

Checksum& Checksum::update_field(std::string_view text) {
  return update_number(text.size()).update(text);
}

Checksum& Checksum::update_number(std::uint64_t value) {
  std::array<std::uint8_t, 8> bytes{};
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(value & 0xff);
    value >>= 8;
  }
  return update(bytes);
}

Digest Checksum::digest() {
  Digest digest{};
  crypto_generichash_final(&state_, digest.data(), digest.size());
  return digest;
}

std::string to_hex(const Digest& digest) {
  std::string text(2 * digest.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
  text.pop_back();  // the terminating zero
  return text;
}

}  // namespace hipflash::cache
