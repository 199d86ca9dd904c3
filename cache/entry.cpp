#include "cache/entry.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "cache/checksum.h"
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

Digest checksum_of(ByteView file) {
  return Checksum()
      .update(file.first(kSummedPrefixBytes))
      .update(file.subspan(kPrefixBytes))
      .digest();
}

std::string header_text(const EntryInfo& info, ByteView code) {
  nlohmann::ordered_json json;
  json["family"] = info.inputs.family;
  json["arch"] = info.inputs.arch;
  json["label"] = info.label;
  json["compiler"] = info.inputs.compiler;
  json["options"] = info.inputs.options;
  json["abi"] = info.inputs.abi;
  json["key"] = key_of(info.inputs);
  json["spec_id"] = spec_id_of(info.inputs);
  json["source_hash"] = info.inputs.source_hash;
  json["code_bytes"] = code.size();
  json["code_hash"] = to_hex(Checksum().update(code).digest());
  json["prologue"] = info.inputs.prologue;
  try {
    return json.dump(2) + '\n';
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

struct HeaderFields {
  EntryHeader header;
  std::string code_hash;
};

Decoded<HeaderFields> parse_header(const Prefix& prefix, ByteView text) {
  // Not ordered_json: its insertion is linear, which a header of many keys would make quadratic.
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) return {{}, "the header is not a JSON object"};

  HeaderFields fields;
  KeyInputs& inputs = fields.header.info.inputs;
  std::string fault;
  const auto read_string = [&](const char* name, std::string& to) {
    const auto at = json.find(name);
    if (at != json.end() && at->is_string()) {
      to = at->get_ref<const std::string&>();
    } else if (fault.empty()) {
      fault = fmt::format("the header has no text \"{}\"", name);
    }
  };
  const auto read_number = [&](const char* name, std::uint64_t& to) {
    const auto at = json.find(name);
    if (at != json.end() && at->is_number_unsigned()) {
      to = at->get<std::uint64_t>();
    } else if (fault.empty()) {
      fault = fmt::format("the header has no count \"{}\"", name);
    }
  };
  std::string key;
  std::string spec_id;
  std::uint64_t abi = 0;
  std::uint64_t code_bytes = 0;
  read_string("family", inputs.family);
  read_string("arch", inputs.arch);
  read_string("label", fields.header.info.label);
  read_string("compiler", inputs.compiler);
  read_string("source_hash", inputs.source_hash);
  read_string("prologue", inputs.prologue);
  read_string("key", key);
  read_string("spec_id", spec_id);
  read_string("code_hash", fields.code_hash);
  read_number("abi", abi);
  read_number("code_bytes", code_bytes);
  if (!fault.empty()) return {{}, fault};

  const auto options = json.find("options");
  if (options == json.end() || !options->is_array()) {
    return {{}, "the header has no list \"options\""};
  }
  for (const nlohmann::json& option : *options) {
    if (!option.is_string()) return {{}, "the header's \"options\" holds something else than text"};
    inputs.options.push_back(option.get_ref<const std::string&>());
  }
  if (abi > std::numeric_limits<std::uint32_t>::max()) {
    return {{}, fmt::format("abi {} is out of range", abi)};
  }
  inputs.abi = static_cast<std::uint32_t>(abi);
  if (code_bytes != prefix.code_bytes) {
    return {{},
            fmt::format("the header states {} bytes of code and the prefix {}", code_bytes,
                        prefix.code_bytes)};
  }
  fields.header.key = key_of(inputs);
  fields.header.spec_id = spec_id_of(inputs);
  if (key != fields.header.key || spec_id != fields.header.spec_id) {
    return {{}, "the header's key is not that of its inputs"};
  }
  fields.header.code_bytes = prefix.code_bytes;
  fields.header.payload_bytes = prefix.payload_bytes;
  return {std::move(fields), {}};
}

// The payload must be one zstd frame of exactly the stated size.
Decoded<Bytes> decompress(ByteView payload, std::size_t code_bytes) {
  if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != code_bytes ||
      ZSTD_findFrameCompressedSize(payload.data(), payload.size()) != payload.size()) {
    return {{}, "the compressed code object is not of the stated size"};
  }
  Bytes code(code_bytes);
  const std::size_t size =
      ZSTD_decompress(code.data(), code.size(), payload.data(), payload.size());
  if (ZSTD_isError(size) != 0) return {{}, fmt::format("zstd: {}", ZSTD_getErrorName(size))};
  if (size != code_bytes) return {{}, "the code object is not of the stated size"};
  return {std::move(code), {}};
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
  Decoded<HeaderFields> fields =
      parse_header(*prefix, file.subspan(kPrefixBytes, prefix->header_bytes));
  if (!fields) return {{}, fields.reason};
  Decoded<Bytes> code =
      decompress(file.subspan(kPrefixBytes + prefix->header_bytes), prefix->code_bytes);
  if (!code) return {{}, code.reason};
  if (to_hex(Checksum().update(*code).digest()) != fields->code_hash) {
    return {{}, "the code object's hash is not the recorded one"};
  }
  return {Entry{std::move(fields->header.info), std::move(*code)}, {}};
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

  const std::size_t payload_at = kPrefixBytes + header.size();
  Bytes file(payload_at + ZSTD_compressBound(code.size()));
  const std::size_t payload_bytes = ZSTD_compress(&file[payload_at], file.size() - payload_at,
                                                  code.data(), code.size(), kCompressionLevel);
  if (ZSTD_isError(payload_bytes) != 0) {
    fail(ErrorCode::Internal, "zstd: {}", ZSTD_getErrorName(payload_bytes));
  }
  // Incompressible code of nearly the cap may grow above it; a reader would refuse that.
  if (payload_bytes > kMaxCodeBytes) {
    fail(ErrorCode::InvalidArgument, "code: {} bytes compressed; a cache entry holds at most {}",
         payload_bytes, kMaxCodeBytes);
  }
  file.resize(payload_at + payload_bytes);

  std::copy(kMagic.begin(), kMagic.end(), file.begin());
  store_little_endian(kFormatVersion, &file[8]);
  store_little_endian(static_cast<std::uint32_t>(header.size()), &file[12]);
  store_little_endian(std::uint64_t{payload_bytes}, &file[16]);
  store_little_endian(std::uint64_t{code.size()}, &file[24]);
  std::copy(header.begin(), header.end(), file.begin() + kPrefixBytes);
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
    Decoded<HeaderFields> fields =
        parse_header(*prefix, file.subspan(kPrefixBytes, prefix->header_bytes));
    if (!fields) return {{}, fields.reason};
    return {std::move(fields->header), {}};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

}  // namespace hipflash::cache
