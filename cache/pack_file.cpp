// Pack: reading.
#include "cache/pack_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "cache/entry_json.h"
#include "cache/pack_layout.h"
#include "cache/trusted_file.h"
#include "cache/zstd_frame.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

constexpr int kIndexDepth = 8;
constexpr int kDocumentDepth = 64;

// Why a pack with this prefix is not taken; empty when it is.
std::string distrust(const PackPrefix& prefix, const PackTrust& trust) {
  if (prefix.signer == PublicKey{}) {
    if (prefix.signature != Signature{}) return "it has a signature and no signer";
    return trust.keys.empty() ? "" : "it is not signed, and only packs signed by a trusted key are";
  }
  if (!verify(signed_message(prefix), prefix.signature, prefix.signer)) {
    return "its signature is wrong";
  }
  if (!trust.keys.empty() &&
      std::find(trust.keys.begin(), trust.keys.end(), prefix.signer) == trust.keys.end()) {
    return fmt::format("it is signed by {}, which is none of the trusted keys",
                       to_hex(prefix.signer));
  }
  return {};
}

Decoded<PackBlob> blob_of(const nlohmann::json& json, std::uint64_t bytes, std::uint64_t offset,
                          std::uint64_t end) {
  const auto stored = count_member(json, "stored_bytes");
  const auto hash = text_member(json, "stored_hash");
  if (!stored || !hash || !is_key(*hash)) return {{}, "its index states no size or hash of a blob"};
  if (*stored == 0 || *stored > end - offset) {
    return {{},
            fmt::format("its index states a blob of {} bytes where {} are left", *stored,
                        end - offset)};
  }
  return {PackBlob{offset, *stored, bytes, *hash}, {}};
}

auto order_of(const PackEntry& entry) {
  return std::tie(entry.info.inputs.arch, entry.info.inputs.family, entry.key);
}

}  // namespace

Decoded<std::shared_ptr<const Pack>> Pack::open(const std::string& path, const PackTrust& trust) {
  OpenedFile opened = open_trusted(path, Links::Follow);
  if (opened.fault != Fault::None) return {{}, opened.reason};
  return open_source(path, std::move(opened.file),
                     static_cast<std::uint64_t>(opened.status.st_size), trust);
}

Decoded<std::shared_ptr<const Pack>> Pack::inspect(const std::string& path,
                                                   const PackTrust& trust) {
  OpenedFile opened = open_regular(path, Links::Follow);
  if (opened.fault != Fault::None) return {{}, opened.reason};
  return open_source(path, std::move(opened.file),
                     static_cast<std::uint64_t>(opened.status.st_size), trust);
}

Decoded<std::shared_ptr<const Pack>> Pack::in_memory(ByteView bytes, std::string name,
                                                     const PackTrust& trust) {
  return open_source(std::move(name), bytes, bytes.size(), trust);
}

Decoded<std::shared_ptr<const Pack>> Pack::open_source(std::string name, Source source,
                                                       std::uint64_t size, const PackTrust& trust) {
  try {
    const std::shared_ptr<Pack> pack(new Pack(std::move(name), std::move(source)));
    if (std::string fault = pack->read_index(size, trust); !fault.empty()) {
      return {{}, std::move(fault)};
    }
    return {std::shared_ptr<const Pack>(pack), {}};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

std::string Pack::read_index(std::uint64_t size, const PackTrust& trust) {
  const Decoded<Bytes> begin = read(0, std::min<std::uint64_t>(size, kPackPrefixBytes));
  if (!begin) return begin.reason;
  const Decoded<PackPrefix> prefix = read_prefix(*begin, size);
  if (!prefix) return prefix.reason;
  file_bytes_ = size;
  if (std::string reason = distrust(*prefix, trust); !reason.empty()) return reason;
  if (prefix->signer != PublicKey{}) signer_ = prefix->signer;

  const Decoded<Bytes> stored = read(kPackPrefixBytes, prefix->stored_index_bytes);
  if (!stored) return stored.reason;
  if (Checksum().update(*stored).digest() != prefix->index_hash) {
    return "its index has the wrong hash";
  }
  const Decoded<Bytes> text = decompress(*stored, prefix->index_bytes);
  if (!text) return "its index is unreadable: " + text.reason;
  return take_index(*text, kPackPrefixBytes + prefix->stored_index_bytes);
}

std::string Pack::take_index(ByteView text, std::uint64_t at) {
  const Decoded<nlohmann::json> index = parse_object(text, kIndexDepth);
  if (!index) return "its index is unreadable: " + index.reason;
  const auto entries = index->find("entries");
  const auto documents = index->find("documents");
  if (entries == index->end() || !entries->is_array() || documents == index->end() ||
      !documents->is_array()) {
    return "its index has no lists of entries and documents";
  }
  if (entries->size() > kMaxPackEntries || documents->size() > kMaxPackEntries) {
    return "its index has too many entries";
  }
  entries_.reserve(entries->size());
  for (const nlohmann::json& json : *entries) {
    Decoded<EntryRecord> record = record_of(json);
    if (!record) return fmt::format("entry {}: {}", entries_.size(), record.reason);
    Decoded<PackBlob> blob = blob_of(json, record->code_bytes, at, file_bytes_);
    if (!blob) return fmt::format("entry {}: {}", entries_.size(), blob.reason);
    at += blob->stored_bytes;
    entries_.push_back({std::move(record->info), std::move(record->key), std::move(record->spec_id),
                        std::move(record->code_hash), std::move(*blob)});
    const std::size_t count = entries_.size();
    if (count > 1 && !(order_of(entries_[count - 2]) < order_of(entries_[count - 1]))) {
      return fmt::format("entry {} is out of order", count - 1);
    }
  }
  for (const nlohmann::json& json : *documents) {
    if (!json.is_object()) return "its index holds a document that is not an object";
    const auto name = text_member(json, "name");
    const auto bytes = count_member(json, "bytes");
    if (!name || !is_document_name(*name)) return "its index names a document that is no file name";
    if (!bytes || *bytes > kMaxDocumentBytes) {
      return fmt::format("document \"{}\": too large, or no size is stated", *name);
    }
    if (!documents_.empty() && documents_.back().name >= *name) {
      return fmt::format("document \"{}\" is out of order", *name);
    }
    Decoded<PackBlob> blob = blob_of(json, *bytes, at, file_bytes_);
    if (!blob) return fmt::format("document \"{}\": {}", *name, blob.reason);
    at += blob->stored_bytes;
    documents_.push_back({*name, std::move(*blob)});
  }
  if (at != file_bytes_) {
    return fmt::format("{} bytes at its end belong to nothing", file_bytes_ - at);
  }
  return {};
}

Decoded<Bytes> Pack::read(std::uint64_t offset, std::uint64_t size) const {
  if (const auto* const memory = std::get_if<ByteView>(&source_)) {
    if (offset > memory->size() || size > memory->size() - offset) return {{}, "it ends too early"};
    const ByteView part = memory->subspan(offset, size);
    return {Bytes(part.begin(), part.end()), {}};
  }
  const int fd = std::get<io::File>(source_).fd();
  Bytes bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(fd, &bytes[done], size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {{}, io::error_text(errno)};
    if (count == 0) return {{}, "it ends too early"};
    done += static_cast<std::size_t>(count);
  }
  return {std::move(bytes), {}};
}

Decoded<Bytes> Pack::blob(const PackBlob& blob) const {
  try {
    Decoded<Bytes> stored = read(blob.offset, blob.stored_bytes);
    if (!stored) return stored;
    if (to_hex(Checksum().update(*stored).digest()) != blob.stored_hash) {
      return {{}, "a part of it has the wrong hash"};
    }
    return decompress(*stored, blob.bytes);
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

Decoded<Bytes> Pack::code(const PackEntry& entry) const {
  Decoded<Bytes> code = blob(entry.blob);
  if (code && to_hex(Checksum().update(*code).digest()) != entry.code_hash) {
    return {{}, "a code object's hash is not the recorded one"};
  }
  return code;
}

Decoded<std::string> Pack::document(const PackDocument& document) const {
  const Decoded<Bytes> bytes = blob(document.blob);
  if (!bytes) return {{}, bytes.reason};
  if (const auto json = parse_object(*bytes, kDocumentDepth); !json) {
    return {{}, fmt::format("document \"{}\": {}", document.name, json.reason)};
  }
  return {std::string(bytes->begin(), bytes->end()), {}};
}

std::string Pack::verify() const {
  for (const PackEntry& entry : entries_) {
    if (const auto read = code(entry); !read) {
      return fmt::format("{} ({} for {}): {}", entry.key, entry.info.label, entry.info.inputs.arch,
                         read.reason);
    }
  }
  for (const PackDocument& one : documents_) {
    if (const auto read = document(one); !read) return read.reason;
  }
  return {};
}

}  // namespace hipflash::cache
