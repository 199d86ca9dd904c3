// What the tests of tuning share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "autotune/document.h"

namespace hipflash::autotune {

// A folder that is gone after the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = testing::TempDir() + "hipflash tuning XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline Fingerprint mi300() {
  return {"hip", "AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, 1300000, 8192};
}

inline plan::TileKey key_of(int head_dim, int queries, int keys, int heads = 5) {
  plan::TileKey key;
  key.family = "gpu/attention_forward_cdna.hip";
  key.element = ElementType::f16;
  key.head_dim = key.value_head_dim = head_dim;
  key.features = "causal";
  key.queries = queries;
  key.keys = keys;
  key.heads = heads;
  return key;
}

inline plan::TileNumbers tile(int waves, int tile_keys) {
  return {{"waves", waves}, {"tile_keys", tile_keys}};
}

inline Entry entry(const plan::TileKey& key, const plan::TileNumbers& numbers,
                   const std::string& text = "text") {
  Entry made;
  made.key = key;
  made.text = text;
  made.tile = numbers;
  made.gain = 1.25;
  return made;
}

inline Document document(const Fingerprint& device, std::vector<Entry> entries,
                         std::vector<Quarantined> quarantine = {}) {
  return {device, std::move(entries), std::move(quarantine)};
}

inline Quarantined quarantined(const plan::TileKey& key, const plan::TileNumbers& numbers,
                               const std::string& reason) {
  return {key.family, "text", key.element, key.head_dim, key.value_head_dim, numbers, reason};
}

}  // namespace hipflash::autotune
