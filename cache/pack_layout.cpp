#include "cache/pack_layout.h"

#include <algorithm>

#include "cache/little_endian.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'H', 'F', 'L', 'P', 'A', 'C', 'K', '\0'};
constexpr std::string_view kSignedTitle = "hipflash pack signature 1";
constexpr std::size_t kIndexHashAt = 40;
constexpr std::size_t kSignerAt = 72;
constexpr std::size_t kSignatureAt = 104;

}  // namespace

Bytes write_prefix(const PackPrefix& prefix) {
  Bytes bytes(kPackPrefixBytes, 0);
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  store_little_endian(kPackVersion, &bytes[8]);
  store_little_endian(prefix.stored_index_bytes, &bytes[16]);
  store_little_endian(prefix.index_bytes, &bytes[24]);
  store_little_endian(prefix.file_bytes, &bytes[32]);
  std::copy(prefix.index_hash.begin(), prefix.index_hash.end(), bytes.begin() + kIndexHashAt);
  std::copy(prefix.signer.begin(), prefix.signer.end(), bytes.begin() + kSignerAt);
  std::copy(prefix.signature.begin(), prefix.signature.end(), bytes.begin() + kSignatureAt);
  return bytes;
}

Decoded<PackPrefix> read_prefix(ByteView bytes, std::uint64_t size) {
  if (bytes.size() < kPackPrefixBytes) {
    return {{}, fmt::format("it ends after {} bytes", bytes.size())};
  }
  if (!std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return {{}, "it does not begin like a pack"};
  }
  const auto version = load_little_endian<std::uint32_t>(&bytes[8]);
  if (version != kPackVersion) {
    return {{}, fmt::format("it has format version {}; {} is read", version, kPackVersion)};
  }
  PackPrefix prefix;
  prefix.stored_index_bytes = load_little_endian<std::uint64_t>(&bytes[16]);
  prefix.index_bytes = load_little_endian<std::uint64_t>(&bytes[24]);
  prefix.file_bytes = load_little_endian<std::uint64_t>(&bytes[32]);
  std::copy_n(bytes.begin() + kIndexHashAt, prefix.index_hash.size(), prefix.index_hash.begin());
  std::copy_n(bytes.begin() + kSignerAt, prefix.signer.size(), prefix.signer.begin());
  std::copy_n(bytes.begin() + kSignatureAt, prefix.signature.size(), prefix.signature.begin());
  if (load_little_endian<std::uint32_t>(&bytes[12]) != 0) {
    return {{}, "bytes 12 to 15 are not zero"};
  }
  if (prefix.file_bytes != size) {
    return {{}, fmt::format("it has {} bytes where {} are stated", size, prefix.file_bytes)};
  }
  if (size > kMaxPackBytes) {
    return {{}, fmt::format("it has {} bytes; {} are the most", size, kMaxPackBytes)};
  }
  for (const std::uint64_t stated : {prefix.stored_index_bytes, prefix.index_bytes}) {
    if (stated == 0 || stated > kMaxPackIndexBytes) {
      return {{}, fmt::format("an index of {} bytes is stated", stated)};
    }
  }
  if (prefix.stored_index_bytes > size - kPackPrefixBytes) {
    return {{}, fmt::format("an index of {} bytes is stated", prefix.stored_index_bytes)};
  }
  return {prefix, {}};
}

Bytes signed_message(const PackPrefix& prefix) {
  const Bytes bytes = write_prefix(prefix);
  Bytes message(kSignedTitle.size() + kSignatureAt);
  std::copy(kSignedTitle.begin(), kSignedTitle.end(), message.begin());
  std::copy_n(bytes.begin(), kSignatureAt,
              message.begin() + static_cast<std::ptrdiff_t>(kSignedTitle.size()));
  return message;
}

}  // namespace hipflash::cache
