/// \file
/// What is recorded about a code object, as JSON: in the header of an entry and in the index of a
/// pack.
#pragma once

#include <nlohmann/json.hpp>

#include "cache/entry.h"

namespace hipflash::cache {

/// What is recorded about one code object.
struct EntryRecord {
  EntryInfo info;
  std::string key;               ///< key_of(info.inputs), recomputed.
  std::string spec_id;           ///< spec_id_of(info.inputs), recomputed.
  std::uint64_t code_bytes = 0;  ///< Size of the code object, within kMaxCodeBytes.
  std::string code_hash;         ///< BLAKE2b-256 of the code object, in hexadecimal.
};

nlohmann::ordered_json to_json(const EntryInfo& info, ByteView code);

/// The record in a JSON object, or why it holds none. Other members are left alone.
Decoded<EntryRecord> record_of(const nlohmann::json& json);

/// JSON of an untrusted file: an object with at most `max_depth` levels, or why it is none. The
/// depth is looked at first, since nested brackets cost far more memory than their text.
Decoded<nlohmann::json> parse_object(ByteView text, int max_depth);

/// A count member of an object; nothing when it is missing or something else.
std::optional<std::uint64_t> count_member(const nlohmann::json& json, const char* name);
/// Likewise a text.
std::optional<std::string> text_member(const nlohmann::json& json, const char* name);

}  // namespace hipflash::cache
