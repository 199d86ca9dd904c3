/// \file
/// The fixed part at the beginning of a pack, see pack_file.h.
#pragma once

#include "cache/checksum.h"
#include "cache/pack_file.h"

namespace hipflash::cache {

struct PackPrefix {
  std::uint64_t stored_index_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t file_bytes = 0;
  Digest index_hash{};
  PublicKey signer{};  // zeros: unsigned
  Signature signature{};
};

/// kPackPrefixBytes bytes.
Bytes write_prefix(const PackPrefix& prefix);

/// The prefix at the beginning of a file of `size` bytes, with all checks that need no more.
Decoded<PackPrefix> read_prefix(ByteView bytes, std::uint64_t size);

/// What a signature signs.
Bytes signed_message(const PackPrefix& prefix);

}  // namespace hipflash::cache
