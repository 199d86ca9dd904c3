/// \file
/// The file format of one cached code object.
///
///     offset size
///          0    8  magic "HFLENTRY"
///          8    4  format version
///         12    4  H, bytes of the header
///         16    8  P, bytes of the payload
///         24    8  bytes of the code object before compression
///         32   32  BLAKE2b-256 of everything else, in file order
///         64    H  header: a JSON object with the key inputs, readable by people
///       64+H    P  payload: one zstd frame
///
/// Numbers are little-endian. The file ends where the payload ends. A reader trusts nothing before
/// the checksum holds, and no size without a cap even then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/key.h"

namespace hipflash::cache {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kPrefixBytes = 64;
/// Caps on what a file may claim. Real headers are a few kilobytes, real code objects a few
/// megabytes.
inline constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxCodeBytes = std::size_t{1} << 27;
inline constexpr std::size_t kMaxFileBytes = kPrefixBytes + kMaxHeaderBytes + kMaxCodeBytes;

/// The readable part of an entry.
struct EntryInfo {
  KeyInputs inputs;
  std::string label;  ///< For people: "f16 d128 causal, 64x256". Not part of the key.

  friend bool operator==(const EntryInfo&, const EntryInfo&) = default;
};

/// One code object and what it was made from.
struct Entry {
  EntryInfo info;
  Bytes code;
};

/// A value, or the reason why there is none.
template <typename T>
struct Decoded {
  std::optional<T> value;
  std::string reason;

  explicit operator bool() const noexcept { return value.has_value(); }
  const T& operator*() const { return *value; }
  T& operator*() { return *value; }
  const T* operator->() const { return &*value; }
  T* operator->() { return &*value; }
};

/// The readable part, with the sizes the file states.
struct EntryHeader {
  EntryInfo info;
  std::string key;                  ///< key_of(info.inputs), recomputed.
  std::string spec_id;              ///< spec_id_of(info.inputs), recomputed.
  std::uint64_t code_bytes = 0;     ///< Size of the code object.
  std::uint64_t payload_bytes = 0;  ///< Its size in the file.
};

/// File bytes of an entry. The same arguments give the same bytes.
/// \throws Error(InvalidArgument) when the code object is empty or above kMaxCodeBytes, the header
///   would be above kMaxHeaderBytes, or a string of `info` is not UTF-8.
Bytes encode(const EntryInfo& info, ByteView code);

/// The entry in a file's bytes, or why these bytes hold none. Never throws on any bytes.
Decoded<Entry> decode(ByteView file);

/// The header alone; `file` may stop anywhere after it. The checksum is not looked at, so this
/// serves for listing and indexing: what is to be loaded goes through decode().
Decoded<EntryHeader> decode_header(ByteView file);

}  // namespace hipflash::cache
