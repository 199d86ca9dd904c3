#include "autotune/tile_json.h"

#include <nlohmann/json.hpp>

namespace hipflash::autotune {

nlohmann::ordered_json tile_json(const plan::TileNumbers& tile) {
  auto made = nlohmann::ordered_json::object();
  for (const auto& [name, value] : tile) made[name] = value;
  return made;
}

plan::TileNumbers tile_of(const nlohmann::ordered_json& json) {
  plan::TileNumbers tile;
  for (const auto& [name, value] : json.items()) tile.emplace_back(name, value.get<int>());
  return tile;
}

}  // namespace hipflash::autotune
