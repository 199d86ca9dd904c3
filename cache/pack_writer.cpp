// encode_pack(): from content to file bytes.
#include <algorithm>
#include <tuple>

#include "cache/entry_json.h"
#include "cache/pack_file.h"
#include "cache/pack_layout.h"
#include "cache/zstd_frame.h"
#include "core/fail.h"

namespace hipflash::cache {
namespace {

// Packs are made once and read often; beyond this level more memory would be needed to read them.
constexpr int kCompressionLevel = 19;
constexpr int kDocumentDepth = 64;

ByteView view_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

auto order_of(const Entry& entry, const std::string& key) {
  return std::tie(entry.info.inputs.arch, entry.info.inputs.family, key);
}

// The entries in the order of the file, each key once.
std::vector<std::pair<std::string, Entry>> arranged(std::vector<Entry> entries) {
  std::vector<std::pair<std::string, Entry>> sorted;
  sorted.reserve(entries.size());
  for (Entry& entry : entries) {
    sorted.emplace_back(key_of(entry.info.inputs), std::move(entry));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return order_of(a.second, a.first) < order_of(b.second, b.first);
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const auto& a = sorted[i - 1];
    const auto& b = sorted[i];
    if (a.first == b.first && a.second.code != b.second.code) {
      fail(ErrorCode::InvalidArgument,
           "pack: two kernels have the key {} ({} for {}) and different code", a.first,
           a.second.info.label, a.second.info.inputs.arch);
    }
  }
  sorted.erase(std::unique(sorted.begin(), sorted.end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; }),
               sorted.end());
  return sorted;
}

// Adds a blob to the file and what the index says of it to `json`.
void add_blob(ByteView bytes, Bytes* blobs, nlohmann::ordered_json* json) {
  const Bytes stored = compress(bytes, kCompressionLevel);
  (*json)["stored_bytes"] = stored.size();
  (*json)["stored_hash"] = to_hex(Checksum().update(stored).digest());
  blobs->insert(blobs->end(), stored.begin(), stored.end());
}

void check_document(const std::string& name, const std::string& text) {
  if (!is_document_name(name)) {
    fail(ErrorCode::InvalidArgument,
         "pack: \"{}\" is no name of a document: it must have letters, digits and \" ._:+@=-\" "
         "only, not begin with a dot, and be at most 128 characters long",
         name);
  }
  if (text.size() > kMaxDocumentBytes) {
    fail(ErrorCode::InvalidArgument, "pack: the document \"{}\" has {} bytes; {} are the most",
         name, text.size(), kMaxDocumentBytes);
  }
  if (const auto json = parse_object(view_of(text), kDocumentDepth); !json) {
    fail(ErrorCode::InvalidArgument, "pack: the document \"{}\" cannot be used: {}", name,
         json.reason);
  }
}

}  // namespace

bool is_document_name(std::string_view name) noexcept {
  static constexpr std::string_view kOthers = " ._:+@=-";
  return !name.empty() && name.size() <= 128 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kOthers.find(c) != std::string_view::npos;
         });
}

Bytes encode_pack(PackContent content, const SecretKey* secret) {
  if (content.entries.size() > kMaxPackEntries) {
    fail(ErrorCode::InvalidArgument, "pack: {} kernels; {} are the most", content.entries.size(),
         kMaxPackEntries);
  }
  nlohmann::ordered_json index;
  index["entries"] = nlohmann::ordered_json::array();
  index["documents"] = nlohmann::ordered_json::array();
  Bytes blobs;
  for (const auto& [key, entry] : arranged(std::move(content.entries))) {
    if (entry.code.empty() || entry.code.size() > kMaxCodeBytes) {
      fail(ErrorCode::InvalidArgument, "pack: a code object of {} bytes; 1 to {} are possible",
           entry.code.size(), kMaxCodeBytes);
    }
    nlohmann::ordered_json json = to_json(entry.info, entry.code);
    add_blob(entry.code, &blobs, &json);
    index["entries"].push_back(std::move(json));
  }
  for (const auto& [name, text] : content.documents) {
    check_document(name, text);
    nlohmann::ordered_json json = {{"name", name}, {"bytes", text.size()}};
    add_blob(view_of(text), &blobs, &json);
    index["documents"].push_back(std::move(json));
  }

  std::string text;
  try {
    text = index.dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::InvalidArgument, "pack: a text of a kernel is not UTF-8");
  }
  const Bytes stored_index = compress(view_of(text), kCompressionLevel);
  PackPrefix prefix;
  prefix.stored_index_bytes = stored_index.size();
  prefix.index_bytes = text.size();
  prefix.file_bytes = kPackPrefixBytes + stored_index.size() + blobs.size();
  prefix.index_hash = Checksum().update(stored_index).digest();
  if (prefix.index_bytes > kMaxPackIndexBytes || prefix.file_bytes > kMaxPackBytes) {
    fail(ErrorCode::InvalidArgument,
         "pack: {} bytes with an index of {}; {} and {} are the most: make several packs",
         prefix.file_bytes, prefix.index_bytes, kMaxPackBytes, kMaxPackIndexBytes);
  }
  if (secret != nullptr) {
    prefix.signer = public_key_of(*secret);
    prefix.signature = sign(signed_message(prefix), *secret);
  }
  Bytes file = write_prefix(prefix);
  file.reserve(prefix.file_bytes);
  file.insert(file.end(), stored_index.begin(), stored_index.end());
  file.insert(file.end(), blobs.begin(), blobs.end());
  return file;
}

}  // namespace hipflash::cache
