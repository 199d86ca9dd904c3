// The numbers of a tile config as a JSON object, in their order.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/tile_choice.h"

namespace hipflash::autotune {

nlohmann::ordered_json tile_json(const plan::TileNumbers& tile);
// Throws nlohmann::json::exception for anything else.
plan::TileNumbers tile_of(const nlohmann::ordered_json& json);

}  // namespace hipflash::autotune
