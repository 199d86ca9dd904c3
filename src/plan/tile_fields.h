// The tile structs of all families as names and values: what goes into the kernel text, into the
// tuning store and back.
#pragma once

#include <cstddef>
#include <type_traits>

#include "cpu/work.h"
#include "gpu/tiles_cdna.h"
#include "gpu/tiles_nv.h"
#include "gpu/tiles_rdna.h"
#include "plan/tile_choice.h"

namespace hipflash::plan {

template <class F>
void each_field(CpuTile& t, F&& f) {
  f("tile_queries", t.tile_queries);
  f("tile_keys", t.tile_keys);
  f("micro_rows", t.micro_rows);
  f("micro_vectors", t.micro_vectors);
}

template <class F>
void each_field(cdna::Tile& t, F&& f) {
  f("waves", t.waves);
  f("mma_rows", t.mma_rows);
  f("tile_keys", t.tile_keys);
  f("waves_per_simd", t.waves_per_simd);
  f("read_ahead", t.read_ahead);
  f("stages", t.stages);
}

template <class F>
void each_field(rdna::WmmaTile& t, F&& f) {
  f("waves", t.waves);
  f("query_tiles", t.query_tiles);
  f("tile_keys", t.tile_keys);
  f("query_shared", t.query_shared);
  f("value_slice", t.value_slice);
}

template <class F>
void each_field(rdna::DotTile& t, F&& f) {
  f("threads", t.threads);
  f("tile_keys", t.tile_keys);
  f("dim_chunk", t.dim_chunk);
  f("value_chunk", t.value_chunk);
}

template <class F>
void each_field(Sm80Tile& t, F&& f) {
  f("tile_keys", t.tile_keys);
  f("waves", t.waves);
  f("row_tiles", t.row_tiles);
  f("stages", t.stages);
  f("blocks_per_sm", t.blocks_per_sm);
  f("q_in_registers", t.q_in_registers);
  f("pack_heads", t.pack_heads);
  f("key_parts", t.key_parts);
}

template <class F>
void each_field(NvF32Tile& t, F&& f) {
  f("tile_keys", t.tile_keys);
  f("waves", t.waves);
  f("blocks_per_sm", t.blocks_per_sm);
  f("p_over_keys", t.p_over_keys);
}

template <class F>
void each_field(NvF16x3Tile& t, F&& f) {
  f("tile_keys", t.tile_keys);
  f("waves", t.waves);
  f("row_tiles", t.row_tiles);
  f("stages", t.stages);
  f("blocks_per_sm", t.blocks_per_sm);
}

template <class F>
void each_field(Sm90Tile& t, F&& f) {
  f("tile_keys", t.tile_keys);
  f("query_groups", t.query_groups);
  f("stages", t.stages);
  f("q_stages", t.q_stages);
  f("take_turns", t.take_turns);
}

template <class Tile>
TileNumbers numbers_of(Tile tile) {
  TileNumbers numbers;
  each_field(tile, [&](const char* name, auto& value) { numbers.emplace_back(name, value); });
  return numbers;
}

// False if the names are not those of this tile, in order, or a value cannot be.
template <class Tile>
bool assign(const TileNumbers& numbers, Tile& tile) {
  std::size_t at = 0;
  bool good = true;
  each_field(tile, [&](const char* name, auto& value) {
    if (!good || at >= numbers.size() || numbers[at].first != name) {
      good = false;
      return;
    }
    const int number = numbers[at++].second;
    using Value = std::remove_reference_t<decltype(value)>;
    good = number >= 0 && number <= (std::is_same_v<Value, bool> ? 1 : 4096);
    value = static_cast<Value>(number);
  });
  return good && at == numbers.size();
}

// The tuned config for a key if `source` knows one of `candidates()`, else `standard`.
template <class Tile, class Candidates>
Tile choose_tile(const TileSource* source, TileKey key, const Tile& standard,
                 Candidates&& candidates, TileChoice& choice) {
  Tile chosen = standard;
  if (source) {
    TileSource::Answer answer = source->find(key, numbers_of(standard), [&] {
      std::vector<TileNumbers> all;
      for (const Tile& tile : candidates()) all.push_back(numbers_of(tile));
      return all;
    });
    if (!answer.numbers.empty() && !assign(answer.numbers, chosen)) chosen = standard;
    choice.origin = answer.origin;
    choice.why = std::move(answer.why);
  }
  choice.key = std::move(key);
  choice.numbers = numbers_of(chosen);
  choice.is_default = choice.numbers == numbers_of(standard);
  return chosen;
}

}  // namespace hipflash::plan
