// The model of shared memory that the bank tests count by: 32 banks of 4 bytes; lanes are served in
// order, as many at once as fetch 128 bytes.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

// The most words that some bank must deliver for lanes that are served together; a negative address
// is an idle lane.
inline int worst_bank(const std::vector<int>& lane_addresses, int bytes) {
  const std::size_t together = 128 / static_cast<std::size_t>(bytes);
  int worst = 0;
  for (std::size_t first = 0; first < lane_addresses.size(); first += together) {
    std::map<int, std::set<int>> words;  // of a bank
    for (std::size_t n = first; n < std::min(first + together, lane_addresses.size()); n++) {
      if (lane_addresses[n] < 0) continue;
      for (int at = lane_addresses[n]; at < lane_addresses[n] + bytes; at += 4) {
        words[at / 4 % 32].insert(at / 4);
      }
    }
    for (const auto& [bank, all] : words) worst = std::max(worst, static_cast<int>(all.size()));
  }
  return worst;
}
