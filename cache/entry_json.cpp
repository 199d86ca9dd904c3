#include "cache/entry_json.h"

#include <limits>

#include "cache/checksum.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

// Of brackets outside of strings. Malformed text is the parser's to refuse.
int depth_of(ByteView text) {
  int depth = 0, most = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint8_t c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      most = std::max(most, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return most;
}

}  // namespace

nlohmann::ordered_json to_json(const EntryInfo& info, ByteView code) {
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
  return json;
}

Decoded<EntryRecord> record_of(const nlohmann::json& json) {
  if (!json.is_object()) return {{}, "the header is not a JSON object"};
  EntryRecord record;
  KeyInputs& inputs = record.info.inputs;
  std::string fault;
  const auto read_text = [&](const char* name, std::string& to) {
    if (auto text = text_member(json, name)) {
      to = *std::move(text);
    } else if (fault.empty()) {
      fault = fmt::format("the header has no text \"{}\"", name);
    }
  };
  const auto read_count = [&](const char* name, std::uint64_t& to) {
    if (const auto count = count_member(json, name)) {
      to = *count;
    } else if (fault.empty()) {
      fault = fmt::format("the header has no count \"{}\"", name);
    }
  };
  std::string key;
  std::string spec_id;
  std::uint64_t abi = 0;
  read_text("family", inputs.family);
  read_text("arch", inputs.arch);
  read_text("label", record.info.label);
  read_text("compiler", inputs.compiler);
  read_text("source_hash", inputs.source_hash);
  read_text("prologue", inputs.prologue);
  read_text("key", key);
  read_text("spec_id", spec_id);
  read_text("code_hash", record.code_hash);
  read_count("abi", abi);
  read_count("code_bytes", record.code_bytes);
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
  if (record.code_bytes == 0 || record.code_bytes > kMaxCodeBytes) {
    return {{}, fmt::format("a code object of {} bytes is stated", record.code_bytes)};
  }
  record.key = key_of(inputs);
  record.spec_id = spec_id_of(inputs);
  if (key != record.key || spec_id != record.spec_id) {
    return {{}, "the header's key is not that of its inputs"};
  }
  return {std::move(record), {}};
}

Decoded<nlohmann::json> parse_object(ByteView text, int max_depth) {
  if (depth_of(text) > max_depth) {
    return {{}, fmt::format("its JSON is more than {} levels deep", max_depth)};
  }
  // Not ordered_json: its insertion is linear, which an object of many keys would make quadratic.
  nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) return {{}, "it is not a JSON object"};
  return {std::move(json), {}};
}

std::optional<std::uint64_t> count_member(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<std::uint64_t>();
}

std::optional<std::string> text_member(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

}  // namespace hipflash::cache
