// What is tried for a problem.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hipflash/inspect.h"
#include "hipflash/problem.h"
#include "plan/kernel_plan.h"

namespace hipflash::autotune {

// Plans a problem on the device that is tuned, with a source of tile configs or null.
using Planner = std::function<plan::KernelPlan(const Problem&, const plan::TileSource*)>;

// A source that knows one config, for any key.
class OnlyTile final : public plan::TileSource {
 public:
  explicit OnlyTile(plan::TileNumbers tile) : tile_(std::move(tile)) {}
  Answer find(const plan::TileKey& key, const plan::TileNumbers& standard,
              const Candidates& candidates) const override;

 private:
  plan::TileNumbers tile_;
};

// The built-in default, then at most `most` other configs that the family lists, those nearest to
// the default first: the fewer numbers differ, and the less, the better the odds.
std::vector<plan::TileNumbers> search_space(const Planner& planner, const Problem& problem,
                                            std::size_t most);

// Why a compiled config need not be run: it spills where the default does not, or does not fit.
// Empty if it must be measured.
std::string reason_to_skip(const CodeFacts& config, const CodeFacts& standard,
                           std::size_t shared_limit);

// Problems that stand for what people run, most common first. `full` has more features, head
// dimensions and sizes.
std::vector<Problem> common_problems(platform::Kind kind, bool full);
// Sizes between those of common_problems(), for checking what was learned.
std::vector<Problem> held_out_problems(platform::Kind kind);

// A problem as the tuner measures it: tensors of the same sizes and features, without gaps. False
// for what it does not measure: dropout, and batch-invariant calls, which do not look at tuning.
bool make_measurable(Problem& problem);

}  // namespace hipflash::autotune
