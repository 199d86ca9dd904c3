// A tuning document: what is known about one machine, as JSON. The store keeps one per machine;
// results that ship with the library are the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autotune/fingerprint.h"
#include "plan/tile_choice.h"

namespace hipflash::autotune {

// The best config for a key.
struct Entry {
  plan::TileKey key;
  std::string text;         // hash of the family's kernel text that was measured
  bool is_default = false;  // nothing beat the built-in default
  plan::TileNumbers tile;   // the best, the default's numbers included
  double gain = 1.0;        // time of the default over time of this
};

// A config that gave a wrong result, crashed or hung: never to be chosen for these head dimensions.
struct Quarantined {
  std::string family, text;
  ElementType element = ElementType::f32;
  int head_dim = 0, value_head_dim = 0;
  plan::TileNumbers tile;
  std::string reason;
};

struct Document {
  Fingerprint device;
  std::vector<Entry> entries;
  std::vector<Quarantined> quarantine;
};

// Throws Error(CacheUnusable) saying what is wrong with it.
Document parse_document(std::string_view json);
std::string to_json(const Document& document);

// Adds what `news` says; where both speak of the same thing, `news` counts. Both must be of one
// machine.
void merge(Document& into, const Document& news);

}  // namespace hipflash::autotune
