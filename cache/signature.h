/// \file
/// Ed25519 signatures of packs, and the files that hold keys.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cache/checksum.h"
#include "cache/entry.h"

namespace hipflash::cache {

using PublicKey = Digest;  ///< 32 bytes; to_hex() writes one.
using SecretKey = std::array<std::uint8_t, 64>;
using Signature = std::array<std::uint8_t, 64>;

struct KeyPair {
  PublicKey public_key{};
  SecretKey secret_key{};
};

KeyPair make_key_pair();
PublicKey public_key_of(const SecretKey& secret);

Signature sign(ByteView message, const SecretKey& secret);
bool verify(ByteView message, const Signature& signature, const PublicKey& key);

/// Writes `path` (the secret key, mode 0600) and `path`.pub. Never replaces a file.
/// \throws Error(CacheUnusable) naming the file.
void write_key_files(const std::filesystem::path& path, const KeyPair& keys);

/// The secret key in a file.
/// \throws Error(InvalidArgument) naming the file and what is wrong with it.
SecretKey read_secret_key(const std::filesystem::path& path);

/// A public key in 64 hexadecimal digits, or the path of a file that holds one.
/// \throws Error(InvalidArgument) naming `what`, the text and the rule.
PublicKey parse_public_key(const std::string& text, std::string_view what);

}  // namespace hipflash::cache
