/// \file
/// The pack: one file of many code objects with what was recorded about them, and of tuning
/// results.
///
///     offset size
///          0    8  magic "HFLPACK\0"
///          8    4  format version
///         12    4  zero
///         16    8  I, bytes of the index in the file
///         24    8  bytes of the index before compression
///         32    8  bytes of the whole file
///         40   32  BLAKE2b-256 of the index as it is in the file
///         72   32  public key of the signer (Ed25519), or zeros
///        104   64  signature of "hipflash pack signature 1" and bytes 0 to 103, or zeros
///        168    I  index: a JSON object in one zstd frame
///      168+I       blobs: one zstd frame each, in the order of the index, without gaps
///
/// The index states the size and hash of each blob, and the prefix the hash of the index: so the
/// signature covers every byte, and a pack is opened by reading its index alone. Places are not
/// stated but follow from the sizes, so blobs cannot overlap. Entries are ordered by architecture,
/// family and key, documents by name; nothing in the file depends on time or place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/entry.h"
#include "cache/io.h"
#include "cache/signature.h"

namespace hipflash::cache {

inline constexpr std::string_view kPackSuffix = ".hfpack";
inline constexpr std::uint32_t kPackVersion = 1;
inline constexpr std::size_t kPackPrefixBytes = 168;
/// Caps on what a file may claim.
inline constexpr std::size_t kMaxPackIndexBytes = std::size_t{1} << 25;
inline constexpr std::size_t kMaxPackEntries = 65536;
inline constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 24;
inline constexpr std::uint64_t kMaxPackBytes = std::uint64_t{1} << 34;

/// What a pack is made of.
struct PackContent {
  std::vector<Entry> entries;                    ///< In any order.
  std::map<std::string, std::string> documents;  ///< Tuning results: JSON objects by file name.
};

/// File bytes of a pack, signed if `secret` is given. The same content gives the same bytes.
/// \throws Error(InvalidArgument) for content that a reader would refuse: two entries of one key
///   with other code, a document that is not JSON or whose name is not one, sizes above the caps.
Bytes encode_pack(PackContent content, const SecretKey* secret = nullptr);

/// True for the name of a document: letters, digits and " ._:+@=-", not first a dot, at most 128
/// characters. Never a path.
bool is_document_name(std::string_view name) noexcept;

/// A blob's place in the file.
struct PackBlob {
  std::uint64_t offset = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  ///< Before compression.
  std::string stored_hash;  ///< BLAKE2b-256 of the stored bytes, in hexadecimal.
};

struct PackEntry {
  EntryInfo info;
  std::string key;
  std::string spec_id;
  std::string code_hash;
  PackBlob blob;
};

struct PackDocument {
  std::string name;
  PackBlob blob;
};

/// Whose packs are taken.
struct PackTrust {
  /// Not empty: only packs that one of these has signed.
  std::vector<PublicKey> keys;
};

/// An open pack: its index is read and checked, its blobs are read when asked for. Immutable and
/// thread-safe; usable on both sides of a fork.
class Pack {
 public:
  /// A pack file, which must belong to the user or root and be writable by nobody else.
  static Decoded<std::shared_ptr<const Pack>> open(const std::string& path, const PackTrust& trust);
  /// The same for looking at a file, whoever may have written it.
  static Decoded<std::shared_ptr<const Pack>> inspect(const std::string& path,
                                                      const PackTrust& trust = {});
  /// A pack in memory that stays valid as long as the Pack lives. Never throws on any bytes.
  static Decoded<std::shared_ptr<const Pack>> in_memory(ByteView bytes, std::string name,
                                                        const PackTrust& trust = {});

  /// The path, or what it was called.
  const std::string& name() const noexcept { return name_; }
  const std::vector<PackEntry>& entries() const noexcept { return entries_; }
  const std::vector<PackDocument>& documents() const noexcept { return documents_; }
  const std::optional<PublicKey>& signer() const noexcept { return signer_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  /// The code object of one of entries(), every byte checked.
  Decoded<Bytes> code(const PackEntry& entry) const;
  /// The text of one of documents(): a JSON object.
  Decoded<std::string> document(const PackDocument& document) const;

  /// Checks every byte. Empty, or what is wrong.
  std::string verify() const;

 private:
  using Source = std::variant<io::File, ByteView>;

  Pack(std::string name, Source source) : name_(std::move(name)), source_(std::move(source)) {}
  static Decoded<std::shared_ptr<const Pack>> open_source(std::string name, Source source,
                                                          std::uint64_t size,
                                                          const PackTrust& trust);
  std::string read_index(std::uint64_t size, const PackTrust& trust);
  std::string take_index(ByteView text, std::uint64_t first_blob);
  Decoded<Bytes> read(std::uint64_t offset, std::uint64_t size) const;
  Decoded<Bytes> blob(const PackBlob& blob) const;

  std::string name_;
  Source source_;
  std::vector<PackEntry> entries_;
  std::vector<PackDocument> documents_;
  std::optional<PublicKey> signer_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace hipflash::cache
