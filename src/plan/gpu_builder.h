// The steps from the facts of a Problem to a finished plan that all GPU families share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hipflash/problem.h"
#include "plan/kernel_facts.h"
#include "plan/kernel_plan.h"
#include "plan/mask_bounds.h"
#include "plan/row_tiles.h"
#include "plan/tile_fields.h"

namespace hipflash::plan {

// A text with its compiler.
struct Family {
  const char* file;
  jit::CompilerKind compiler;
  std::vector<std::string> options;
};

// Throws Error(NotSupported) for more blocks than a launch takes.
unsigned grid_size(long long blocks);

// What is planned for.
struct Target {
  const platform::DeviceFacts& device;
  const TileSource* tuned;
  Kernel kernel;

  bool general() const { return kernel == Kernel::general; }
};

// What a family says of one tile config.
struct Config {
  TileNumbers numbers;
  int tile_keys;
  int threads;
  int shared_bytes;  // dynamic
  int thread_rows = 1;
};

// Rows to tiles, tiles to blocks, keys to splits: what families with one block per tile share.
struct TileGrid {
  const Problem& problem;
  int tile_rows, slices;  // blocks that share a tile: one for each slice of its value dims
  bool pack_heads;
  long long slots;  // blocks that the device holds at a time; 0: never split
  double fill = kUsualFill;
  int keys = 0;  // that splits share; 0: all

  long long blocks(const AttentionArgs& args) const;
  void split_keys(AttentionArgs& args, int tile_keys) const;
};

// attention_merge of a family: how many blocks some arguments take, and of how many threads.
struct Merge {
  long long (*blocks)(const AttentionArgs& args);
  unsigned threads;
  bool begins_early = false;  // see LaunchShape
};

class Builder {
 public:
  Builder(const Problem& problem, const Target& target);

  const AttentionArgs& args() const { return plan_.args; }
  int element_bytes() const { return facts.element == ElementType::f32 ? 4 : 2; }
  // Softcap, ALiBi, bias and masks take registers of a kernel.
  bool modified() const { return facts.softcap || facts.alibi || facts.bias || facts.mask; }

  // The tuned config if one of the candidates was tuned, else `standard`. Asked when all facts are
  // known.
  template <class Tile, class Candidates>
  Tile choose(const Family& family, const Tile& standard, Candidates&& candidates,
              const std::string& variant = {}) {
    return choose_tile(tuned_, tile_key(family.file, facts, args(), variant), standard,
                       std::forward<Candidates>(candidates), plan_.tile);
  }

  // For families with one block per tile, which may split their keys.
  KernelPlan finish(const Family& family, const Config& config, const TileGrid& grid,
                    const Merge& merge, const std::string& why);
  KernelPlan finish(const Family& family, const Config& config, const platform::GpuLaunch& launch,
                    const std::string& why);

 private:
  MaskBounds bounds_;
  const platform::DeviceFacts& device_;
  const TileSource* tuned_;
  const bool general_;
  KernelPlan plan_;

 public:
  KernelFacts facts;
};

// Addresses of rows in pages take registers of a kernel. A batch-invariant call has the same tile
// without pages, so that both give the same bits.
bool takes_page_tiles(const Problem& problem);

// Blocks that a device holds if a unit holds so many; one unit stands for an unknown device.
long long slots_of(const platform::DeviceFacts& device, int blocks_of_unit);

}  // namespace hipflash::plan
