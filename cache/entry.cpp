#include "cache/entry.h"

#include <algorithm>
#include <array>

#include "cache/checksum.h"
#include "cache/entry_json.h"
#include "cache/little_endian.h"
#include "cache/zstd_frame.h"
#include "core/fail.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'H', 'F', 'L', 'E', 'N', 'T', 'R', 'Y'};
constexpr std::size_t kSummedPrefixBytes = 32;  // the prefix up to its checksum
// Higher levels gain little on code objects and would delay the first call.
constexpr int kCompressionLevel = 3;

struct Prefix {
  std::uint32_t version = kFormatVersion;
  std::uint32_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t code_bytes = 0;
};

Digest checksum_of(ByteView file) {
  return Checksum()
      .update(file.first(kSummedPrefixBytes))
      .update(file.subspan(kPrefixBytes))
      .digest();
}

std::string header_text(const EntryInfo& info, ByteView code) {
  try {
    return to_json(info, code).dump(2) + '\n';
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::InvalidArgument, "info: a text of the cache entry for {} is not UTF-8",
         info.inputs.family);
  }
}

// Reads the prefix and checks all that can be known without the rest of the file.
Decoded<Prefix> parse_prefix(ByteView file) {
  if (file.empty()) return {{}, "the file is empty"};
  if (file.size() < kPrefixBytes) {
    return {{}, fmt::format("the file ends after {} bytes", file.size())};
  }
  if (!std::equal(kMagic.begin(), kMagic.end(), file.begin())) {
    return {{}, "the file does not begin like a cache entry"};
  }
  Prefix prefix;
  prefix.version = load_little_endian<std::uint32_t>(&file[8]);
  prefix.header_bytes = load_little_endian<std::uint32_t>(&file[12]);
  prefix.payload_bytes = load_little_endian<std::uint64_t>(&file[16]);
  prefix.code_bytes = load_little_endian<std::uint64_t>(&file[24]);
  if (prefix.version != kFormatVersion) {
    return {{}, fmt::format("format version {} where {} is read", prefix.version, kFormatVersion)};
  }
  if (prefix.header_bytes == 0 || prefix.header_bytes > kMaxHeaderBytes) {
    return {{}, fmt::format("a header of {} bytes is stated", prefix.header_bytes)};
  }
  if (prefix.payload_bytes == 0 || prefix.payload_bytes > kMaxCodeBytes) {
    return {{}, fmt::format("a payload of {} bytes is stated", prefix.payload_bytes)};
  }
  if (prefix.code_bytes == 0 || prefix.code_bytes > kMaxCodeBytes) {
    return {{}, fmt::format("a code object of {} bytes is stated", prefix.code_bytes)};
  }
  return {prefix, {}};
}

Decoded<EntryRecord> parse_header(const Prefix& prefix, ByteView text) {
  constexpr int kDepth = 8;
  const Decoded<nlohmann::json> json = parse_object(text, kDepth);
  if (!json) return {{}, "the header is unreadable: " + json.reason};
  Decoded<EntryRecord> record = record_of(*json);
  if (record && record->code_bytes != prefix.code_bytes) {
    return {{},
            fmt::format("the header states {} bytes of code and the prefix {}", record->code_bytes,
                        prefix.code_bytes)};
  }
  return record;
}

Decoded<Entry> decode_checked(ByteView file) {
  const Decoded<Prefix> prefix = parse_prefix(file);
  if (!prefix) return {{}, prefix.reason};
  const std::size_t stated = kPrefixBytes + prefix->header_bytes + prefix->payload_bytes;
  if (file.size() != stated) {
    return {{}, fmt::format("the file has {} bytes where {} are stated", file.size(), stated)};
  }
  const Digest sum = checksum_of(file);
  if (!std::equal(sum.begin(), sum.end(), file.begin() + kSummedPrefixBytes)) {
    return {{}, "wrong checksum"};
  }
  Decoded<EntryRecord> record =
      parse_header(*prefix, file.subspan(kPrefixBytes, prefix->header_bytes));
  if (!record) return {{}, record.reason};
  Decoded<Bytes> code =
      decompress(file.subspan(kPrefixBytes + prefix->header_bytes), prefix->code_bytes);
  if (!code) return {{}, code.reason};
  if (to_hex(Checksum().update(*code).digest()) != record->code_hash) {
    return {{}, "the code object's hash is not the recorded one"};
  }
  return {Entry{std::move(record->info), std::move(*code)}, {}};
}

}  // namespace

Bytes encode(const EntryInfo& info, ByteView code) {
  if (code.empty()) fail(ErrorCode::InvalidArgument, "code: a cache entry of 0 bytes");
  if (code.size() > kMaxCodeBytes) {
    fail(ErrorCode::InvalidArgument, "code: {} bytes; a cache entry holds at most {}", code.size(),
         kMaxCodeBytes);
  }
  const std::string header = header_text(info, code);
  if (header.size() > kMaxHeaderBytes) {
    fail(ErrorCode::InvalidArgument, "info: a header of {} bytes; a cache entry holds at most {}",
         header.size(), kMaxHeaderBytes);
  }

  const Bytes payload = compress(code, kCompressionLevel);
  // Incompressible code of nearly the cap may grow above it; a reader would refuse that.
  if (payload.size() > kMaxCodeBytes) {
    fail(ErrorCode::InvalidArgument, "code: {} bytes compressed; a cache entry holds at most {}",
         payload.size(), kMaxCodeBytes);
  }
  Bytes file(kPrefixBytes + header.size() + payload.size());
  std::copy(kMagic.begin(), kMagic.end(), file.begin());
  store_little_endian(kFormatVersion, &file[8]);
  store_little_endian(static_cast<std::uint32_t>(header.size()), &file[12]);
  store_little_endian(std::uint64_t{payload.size()}, &file[16]);
  store_little_endian(std::uint64_t{code.size()}, &file[24]);
  const auto after_header = std::copy(header.begin(), header.end(), file.begin() + kPrefixBytes);
  std::copy(payload.begin(), payload.end(), after_header);
  const Digest sum = checksum_of(file);
  std::copy(sum.begin(), sum.end(), file.begin() + kSummedPrefixBytes);
  return file;
}

Decoded<Entry> decode(ByteView file) {
  try {
    return decode_checked(file);
  } catch (const std::exception& error) {  // no memory for what the file states
    return {{}, error.what()};
  }
}

Decoded<EntryHeader> decode_header(ByteView file) {
  try {
    const Decoded<Prefix> prefix = parse_prefix(file);
    if (!prefix) return {{}, prefix.reason};
    if (file.size() - kPrefixBytes < prefix->header_bytes) {
      return {{}, fmt::format("the file ends after {} bytes, inside the header", file.size())};
    }
    Decoded<EntryRecord> record =
        parse_header(*prefix, file.subspan(kPrefixBytes, prefix->header_bytes));
    if (!record) return {{}, record.reason};
    return {EntryHeader{std::move(record->info), std::move(record->key), std::move(record->spec_id),
                        prefix->code_bytes, prefix->payload_bytes},
            {}};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

}  // namespace hipflash::cache
