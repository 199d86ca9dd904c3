// JSON on one line: the big templates of its writer are compiled once (in json.cpp) instead of in
// every file that writes some.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace hipflash {

// ASCII without line breaks. Bytes that are not UTF-8 become U+FFFD.
std::string json_line(const nlohmann::json& json);
std::string json_line(const nlohmann::ordered_json& json);

}  // namespace hipflash
