#include "autotune/document.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autotune/tile_json.h"
#include "core/fail.h"
#include "core/json.h"

namespace hipflash::autotune {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kFormat = 1;

ElementType element_of(const std::string& name) {
  for (const ElementType element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    if (name == plan::element_name(element)) return element;
  }
  fail(ErrorCode::CacheUnusable, "dtype \"{}\" is unknown", name);
}

Entry entry_of(const ordered_json& from) {
  Entry entry;
  from.at("family").get_to(entry.key.family);
  from.at("text").get_to(entry.text);
  entry.key.element = element_of(from.at("dtype").get<std::string>());
  from.at("head_dim").get_to(entry.key.head_dim);
  from.at("value_head_dim").get_to(entry.key.value_head_dim);
  from.at("features").get_to(entry.key.features);
  from.at("queries").get_to(entry.key.queries);
  from.at("keys").get_to(entry.key.keys);
  from.at("heads").get_to(entry.key.heads);
  from.at("default").get_to(entry.is_default);
  entry.tile = tile_of(from.at("tile"));
  from.at("gain").get_to(entry.gain);
  return entry;
}

Quarantined quarantined_of(const ordered_json& from) {
  Quarantined q;
  from.at("family").get_to(q.family);
  from.at("text").get_to(q.text);
  q.element = element_of(from.at("dtype").get<std::string>());
  from.at("head_dim").get_to(q.head_dim);
  from.at("value_head_dim").get_to(q.value_head_dim);
  q.tile = tile_of(from.at("tile"));
  from.at("reason").get_to(q.reason);
  return q;
}

bool same_thing(const Entry& a, const Entry& b) {
  return a.key == b.key && a.text == b.text;
}
bool same_thing(const Quarantined& a, const Quarantined& b) {
  return a.family == b.family && a.text == b.text && a.element == b.element &&
         a.head_dim == b.head_dim && a.value_head_dim == b.value_head_dim && a.tile == b.tile;
}

template <class T>
void merge_list(std::vector<T>& into, const std::vector<T>& news) {
  for (const T& one : news) {
    const auto old = std::find_if(into.begin(), into.end(),
                                  [&](const T& other) { return same_thing(one, other); });
    if (old == into.end()) {
      into.push_back(one);
    } else {
      *old = one;
    }
  }
}

}  // namespace

Document parse_document(std::string_view text) {
  try {
    const ordered_json from = ordered_json::parse(text);
    if (const int format = from.at("format").get<int>(); format != kFormat) {
      fail(ErrorCode::CacheUnusable, "its format is {}, this version reads {}", format, kFormat);
    }
    Document document;
    const ordered_json& device = from.at("device");
    device.at("platform").get_to(document.device.platform);
    device.at("name").get_to(document.device.name);
    device.at("arch").get_to(document.device.arch);
    device.at("compute_units").get_to(document.device.compute_units);
    device.at("memory_clock_khz").get_to(document.device.memory_clock_khz);
    device.at("memory_bus_bits").get_to(document.device.memory_bus_bits);
    for (const ordered_json& one : from.at("entries")) document.entries.push_back(entry_of(one));
    for (const ordered_json& one : from.at("quarantine")) {
      document.quarantine.push_back(quarantined_of(one));
    }
    return document;
  } catch (const json::exception& error) {
    fail(ErrorCode::CacheUnusable, "{}", error.what());
  }
}

std::string to_json(const Document& document) {
  const Fingerprint& device = document.device;
  // One line for each thing, so that people and version control see what changed.
  std::string text =
      fmt::format("{{\"format\":{},\n\"device\":{},\n\"entries\":[", kFormat,
                  json_line(ordered_json{{"platform", device.platform},
                                         {"name", device.name},
                                         {"arch", device.arch},
                                         {"compute_units", device.compute_units},
                                         {"memory_clock_khz", device.memory_clock_khz},
                                         {"memory_bus_bits", device.memory_bus_bits}}));
  const char* separator = "\n";
  for (const Entry& entry : document.entries) {
    text += separator + json_line(ordered_json{{"family", entry.key.family},
                                               {"text", entry.text},
                                               {"dtype", plan::element_name(entry.key.element)},
                                               {"head_dim", entry.key.head_dim},
                                               {"value_head_dim", entry.key.value_head_dim},
                                               {"features", entry.key.features},
                                               {"queries", entry.key.queries},
                                               {"keys", entry.key.keys},
                                               {"heads", entry.key.heads},
                                               {"default", entry.is_default},
                                               {"tile", tile_json(entry.tile)},
                                               {"gain", std::round(entry.gain * 1e4) / 1e4}});
    separator = ",\n";
  }
  text += "],\n\"quarantine\":[";
  separator = "\n";
  for (const Quarantined& q : document.quarantine) {
    text += separator + json_line(ordered_json{{"family", q.family},
                                               {"text", q.text},
                                               {"dtype", plan::element_name(q.element)},
                                               {"head_dim", q.head_dim},
                                               {"value_head_dim", q.value_head_dim},
                                               {"tile", tile_json(q.tile)},
                                               {"reason", q.reason}});
    separator = ",\n";
  }
  return text + "]}\n";
}

void merge(Document& into, const Document& news) {
  merge_list(into.entries, news.entries);
  merge_list(into.quarantine, news.quarantine);
}

}  // namespace hipflash::autotune
