#include "autotune/samples.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json.h"

namespace hipflash::autotune {
namespace {

using Json = nlohmann::ordered_json;

Json interval_json(const Interval& x) {
  return {x.median, x.low, x.high};
}

Interval interval_of(const Json& x) {
  return {x.at(0).get<double>(), x.at(1).get<double>(), x.at(2).get<double>()};
}

}  // namespace

std::vector<RaceSample> parse_samples(const std::string& text) {
  std::vector<RaceSample> races;
  try {
    const Json all = Json::parse(text);
    for (const Json& from : all.at("races")) {
      RaceSample race;
      from.at("family").get_to(race.key.family);
      race.key.element = static_cast<ElementType>(from.at("element").get<int>());
      from.at("head_dim").get_to(race.key.head_dim);
      from.at("value_head_dim").get_to(race.key.value_head_dim);
      from.at("features").get_to(race.key.features);
      const Json& bucket = from.at("bucket");
      bucket.at(0).get_to(race.key.queries);
      bucket.at(1).get_to(race.key.keys);
      bucket.at(2).get_to(race.key.heads);
      from.at("text").get_to(race.text);
      from.at("label").get_to(race.label);
      const Json& sizes = from.at("sizes");
      sizes.at(0).get_to(race.batch);
      sizes.at(1).get_to(race.heads);
      sizes.at(2).get_to(race.queries);
      sizes.at(3).get_to(race.keys);
      from.at("flops").get_to(race.flops);
      for (const Json& one : from.at("configs")) {
        ConfigSample config;
        for (const auto& [name, value] : one.at("tile").items()) {
          config.tile.emplace_back(name, value.get<int>());
        }
        config.ms = interval_of(one.at("ms"));
        config.ratio = interval_of(one.at("ratio"));
        one.at("rounds").get_to(config.rounds);
        one.at("state").get_to(config.state);
        race.configs.push_back(std::move(config));
      }
      races.push_back(std::move(race));
    }
  } catch (const Json::exception&) {
    return {};
  }
  return races;
}

std::string samples_json(const std::vector<RaceSample>& races) {
  Json list = Json::array();
  for (const RaceSample& race : races) {
    Json configs = Json::array();
    for (const ConfigSample& config : race.configs) {
      Json tile = Json::object();
      for (const auto& [name, value] : config.tile) tile[name] = value;
      configs.push_back({{"tile", tile},
                         {"ms", interval_json(config.ms)},
                         {"ratio", interval_json(config.ratio)},
                         {"rounds", config.rounds},
                         {"state", config.state}});
    }
    list.push_back({{"family", race.key.family},
                    {"element", static_cast<int>(race.key.element)},
                    {"head_dim", race.key.head_dim},
                    {"value_head_dim", race.key.value_head_dim},
                    {"features", race.key.features},
                    {"bucket", {race.key.queries, race.key.keys, race.key.heads}},
                    {"text", race.text},
                    {"label", race.label},
                    {"sizes", {race.batch, race.heads, race.queries, race.keys}},
                    {"flops", race.flops},
                    {"configs", configs}});
  }
  return json_line(Json{{"races", list}}) + "\n";
}

void add_sample(std::vector<RaceSample>& races, RaceSample race) {
  std::erase_if(races, [&](const RaceSample& other) {
    return other.key == race.key && other.text == race.text;
  });
  races.push_back(std::move(race));
}

std::string samples_name(const Fingerprint& device) {
  return file_stem(device) + ".samples";
}

}  // namespace hipflash::autotune
