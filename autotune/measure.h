// Runs configs of one problem on a device: right or wrong, and how fast. Lives in a process of its
// own (see worker.h), since a config may crash it or hang.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hipflash/context.h"
#include "plan/tile_choice.h"

namespace hipflash::autotune {

struct Trial {
  int id = -1;        // for time_ms(); -1: not usable
  std::string fault;  // what is wrong with the result, in words; empty if it is right
  double ms = 0;      // of one run, roughly
};

class Measurer {
 public:
  Measurer(DeviceId device, const ContextOptions& options);
  ~Measurer();

  // Takes the problem and makes its tensors; forgets the one before.
  void load(const Problem& problem);
  // Compiles or finds the config's kernel, runs it on poisoned outputs and checks the result
  // against the float64 reference. Throws Error if it does not compile, load or launch.
  Trial try_tile(const plan::TileNumbers& tile);
  // Milliseconds of one run, the mean of `repeat` runs in a row.
  double time_ms(int id, int repeat);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hipflash::autotune
