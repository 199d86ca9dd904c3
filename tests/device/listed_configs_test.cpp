// Every tile config that a family lists for the device's architecture, forced one by one as the
// tuner does, against float64: any of them may be what a tuner finds fastest.
//
// The lists depend on the element type and the head dimensions, and on some devices on the kind of
// call too. Each config runs one call, of a kind that changes from config to config, dims to dims
// and type to type, so that each meets each kind. Rows and keys follow from the config: more than
// one tile of both, the last ones partial. Small enough for an emulated device, by shards:
// --gtest_filter='*ListedConfigs*/f16_d128'.
//
// Lists of NVIDIA families are products of hundreds of configs. There an even sample runs, unless
// HIPFLASH_LISTED_CONFIGS=all.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/context_impl.h"
#include "autotune/search_space.h"
#include "device/on_device.h"
#include "gpu/tiles_tiny.h"
#include "jit/code_facts.h"
#include "numerics/ragged_case.h"
#include "plan/gpu_plan.h"
#include "plan/tile_fields.h"

namespace hipflash::testing {
namespace {

struct Dims {
  int head_dim, value_head_dim;
};

// ---- calls --------------------------------------------------------------------------------------

// Of a block and a step.
struct TileSize {
  int rows, keys;
};

RaggedCase dense(TileSize tile) {
  RaggedCase c;
  c.packed_q = false;
  c.form = KeyForm::dense;
  c.heads_q = c.heads_kv = 1;
  c.queries = {tile.rows + 9};
  c.keys = {2 * tile.keys + 5};
  // Few keys are a family of their own on NVIDIA, which chooses no tile.
  if (test_device().platform == Platform::cuda) c.keys[0] += tiny::kMostBoardKeys;
  return c;
}

RaggedCase full(TileSize tile) {
  return dense(tile);
}

RaggedCase causal(TileSize tile) {
  RaggedCase c = dense(tile);
  c.causal = true;
  return c;
}

// Few queries of heads that share keys, which are split.
RaggedCase decoding(TileSize tile) {
  RaggedCase c = dense(tile);
  c.causal = true;
  c.heads_q = 3;
  c.queries = {2};
  c.keys[0] += 3 * tile.keys;
  return c;
}

RaggedCase packed(TileSize tile) {
  RaggedCase c;
  c.causal = c.sinks = true;
  c.queries = {tile.rows + 9, 5};
  c.keys = {2 * tile.keys + 5, tile.keys - 1};
  return c;
}

RaggedCase paged(TileSize tile) {
  RaggedCase c;
  c.form = KeyForm::paged;
  c.causal = true;
  c.queries = {tile.rows / 2 + 3, 1};
  c.keys = {2 * tile.keys + 5, 7};
  return c;
}

// All modifiers and masks, and rows that are not 16-byte aligned.
RaggedCase modified(TileSize tile) {
  RaggedCase c = dense(tile);
  c.layout = Layout::padded_rows;
  c.window = {tile.keys + 3, 7};
  c.softcap = 5.0f;
  c.alibi = c.bias = c.mask = true;
  return c;
}

constexpr RaggedCase (*kKinds[])(TileSize) = {full, causal, decoding, packed, paged, modified};

// ---- configs ------------------------------------------------------------------------------------

// The tile of a family that has these numbers.
TileSize size_of(const plan::TileNumbers& numbers) {
  if (cdna::Tile t = {}; plan::assign(numbers, t)) return {cdna::queries(t), t.tile_keys};
  if (rdna::WmmaTile t = {}; plan::assign(numbers, t)) return {rdna::wmma_queries(t), t.tile_keys};
  if (rdna::DotTile t = {}; plan::assign(numbers, t)) return {rdna::dot_queries(t), t.tile_keys};
  if (Sm80Tile t = {}; plan::assign(numbers, t)) return {sm80_tile_rows(t), t.tile_keys};
  if (NvF32Tile t = {}; plan::assign(numbers, t)) return {nvf32_threads(t), t.tile_keys};
  if (NvF16x3Tile t = {}; plan::assign(numbers, t)) return {nvf16x3_tile_rows(t), t.tile_keys};
  if (Sm90Tile t = {}; plan::assign(numbers, t)) return {sm90_tile_rows(t), t.tile_keys};
  throw Error(ErrorCode::Internal, "no family has the tile " + plan::to_text(numbers));
}

// What a family lists for a problem, and its built-in default.
struct List final : plan::TileSource {
  Answer find(const plan::TileKey& key, const plan::TileNumbers& its_default,
              const Candidates& candidates) const override {
    family = key.family;
    standard = its_default;
    configs = candidates();
    return {};
  }
  mutable std::string family;
  mutable plan::TileNumbers standard;
  mutable std::vector<plan::TileNumbers> configs;
};

bool contains(const std::vector<plan::TileNumbers>& list, const plan::TileNumbers& config) {
  return std::find(list.begin(), list.end(), config) != list.end();
}

// 1: every config of such a list runs.
std::size_t sample_step(const platform::DeviceFacts& device, std::size_t configs) {
  constexpr std::size_t kMostOfNvidia = 24;
  const char* const wanted = std::getenv("HIPFLASH_LISTED_CONFIGS");
  if (device.kind != platform::Kind::cuda || (wanted && wanted == std::string("all"))) return 1;
  return (configs + kMostOfNvidia - 1) / kMostOfNvidia;
}

// A config with the call that it runs.
struct Trial {
  plan::TileNumbers config;
  RaggedCase call;
  std::size_t listed = 0;  // length of its list
  bool in_list = true;
};

// Kinds of calls that have one list share it: each of its configs runs one of them, in turn from
// `turn` on. A default that is in no list runs with each kind that it serves.
std::vector<Trial> trials_of(const platform::DeviceFacts& device, DType dtype, Dims dims,
                             std::size_t turn) {
  struct Group {
    List list;
    std::vector<RaggedCase (*)(TileSize)> kinds;
  };
  const auto with_type = [&](RaggedCase c) {
    c.dtype = dtype;
    c.dim = dims.head_dim;
    c.value_dim = dims.value_head_dim;
    return c;
  };
  std::vector<Group> groups;
  std::vector<Trial> trials;
  for (const auto kind : kKinds) {
    List list;
    const RaggedData usual(with_type(kind({64, 64})));
    plan::plan_gpu(usual.problem(), device, &list);
    EXPECT_FALSE(list.configs.empty())
        << list.family << " lists nothing for " << to_string(dtype) << " d" << dims.head_dim;
    if (!contains(list.configs, list.standard)) {
      trials.push_back(
          {list.standard, with_type(kind(size_of(list.standard))), list.configs.size(), false});
    }
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.list.family == list.family && group.list.configs == list.configs;
    });
    if (same == groups.end()) {
      groups.push_back({list, {kind}});
    } else {
      same->kinds.push_back(kind);
    }
  }
  for (const Group& group : groups) {
    const std::vector<plan::TileNumbers>& configs = group.list.configs;
    const std::size_t step = sample_step(device, configs.size());
    for (std::size_t i = 0; i < configs.size(); i += step) {
      EXPECT_EQ(std::count(configs.begin(), configs.end(), configs[i]), 1)
          << plan::to_text(configs[i]) << " is listed twice";
      const auto kind = group.kinds[(i / step + turn) % group.kinds.size()];
      trials.push_back({configs[i], with_type(kind(size_of(configs[i]))), configs.size()});
    }
  }
  return trials;
}

// ---- the test -----------------------------------------------------------------------------------

// The device with configs of the test's choice.
class Chosen {
 public:
  Chosen()
      : device_(api::open_device(test_device(), {})),
        provider_(api::provider_options({})),
        modules_(provider_) {}

  const platform::DeviceFacts& facts() const { return device_->facts(); }
  jit::CodeProvider& provider() { return provider_; }

  plan::KernelPlan plan(const Problem& problem, const plan::TileNumbers& config) const {
    const autotune::OnlyTile only(config);
    return plan::plan_gpu(problem, facts(), &only);
  }
  // Ready to run. Throws Error if the kernel does not compile or load.
  Plan load(const Problem& problem, const plan::KernelPlan& chosen) {
    auto made = std::make_shared<Plan::Impl>();
    made->problem = problem;
    made->device = test_device();
    made->args = chosen.args;
    made->runner = device_->prepare(modules_.get(*device_, chosen.spec).module, chosen.launch);
    return Plan(made);
  }

 private:
  std::unique_ptr<platform::Device> device_;
  jit::CodeProvider provider_;
  jit::ModuleCache modules_;
};

Chosen& chosen() {
  static Chosen instance;
  return instance;
}

bool spills(const jit::CodeObject& code) {
  const CodeFacts facts = jit::read_code_facts(code.bytes, chosen().facts().arch);
  return std::any_of(facts.kernels.begin(), facts.kernels.end(),
                     [](const KernelResources& kernel) { return kernel.spills(); });
}

void expect_right(const Trial& trial, const plan::KernelPlan& plan, const jit::CodeObject& code) {
  RaggedData data(trial.call);
  data.poison();
  const Plan ready = chosen().load(data.problem(), plan);
  target({}).run(ready, data.pointers(), data.blocks());
  const verify::Verdict verdict = data.verdict();
  Result result{plan.spec.family,
                trial.call.dtype,
                trial.call.dim,
                trial.call.value_dim,
                features_of(data.problem()) + (plan.args.splits > 1 ? ", split keys" : ""),
                verdict.ok() && data.untouched(),
                verdict.out.max_error,
                verdict.lse.max_error};
  result.config = plan::to_text(trial.config);
  result.listed = trial.listed;
  result.in_list = trial.in_list;
  result.spills = spills(code);
  write_result(context().device(), result);
  EXPECT_TRUE(verdict.ok()) << verdict.text() << (result.spills ? " (it spills)" : "");
  EXPECT_TRUE(data.untouched()) << "something that is no sequence's output was written";
}

// Groups of a block of wgmma share keys, queries and turns, and under a window each needs keys of
// its own: every form of that pipeline at two widths of a step, blocks with several pieces of work.
TEST(ListedWindows, EveryPipelineOfWgmma) {
  if (chosen().facts().arch != "sm_90a") GTEST_SKIP() << "wgmma is for sm_90a";
  const auto narrow = [](TileSize tile, int more_rows, Window window) {
    RaggedCase c = dense(tile);
    c.dim = c.value_dim = 16;
    c.heads_q = c.heads_kv = chosen().facts().compute_units;
    c.queries = {2 * tile.rows + more_rows};
    c.keys = {c.queries[0] + 150};
    c.window = window;
    return c;
  };
  List list;
  plan::plan_gpu(RaggedData(narrow({192, 64}, 9, {9, 9})).problem(), chosen().facts(), &list);
  std::size_t pipelines = 0;
  for (const plan::TileNumbers& config : list.configs) {
    Sm90Tile tile = {};
    ASSERT_TRUE(plan::assign(config, tile)) << list.family;
    if (tile.tile_keys != 48 && tile.tile_keys != 80) continue;
    pipelines++;
    // Of the last rows there are some for one of the groups, or for two.
    for (const auto& [more_rows, window] :
         {std::pair(9, Window{30, 10}), std::pair(73, Window{100, 0})}) {
      const Trial trial = {config, narrow(size_of(config), more_rows, window), list.configs.size()};
      const plan::KernelPlan plan = chosen().plan(RaggedData(trial.call).problem(), config);
      SCOPED_TRACE(::testing::Message() << plan.config << "\n" << trial.call);
      expect_right(trial, plan, chosen().provider().get(plan.spec));
    }
  }
  EXPECT_EQ(pipelines, 2u * 2 * 2 * 2 * 2) << "widths, groups, stages, queries, turns";
}

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
constexpr Dims kDims[] = {{64, 64}, {128, 128}, {256, 256}, {32, 32},
                          {96, 96}, {192, 128}, {512, 512}};

class ListedConfigs : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {
 protected:
  void SetUp() override {
    if (test_device().platform == Platform::cpu) GTEST_SKIP() << "no GPU on this machine";
  }
};

TEST_P(ListedConfigs, AreRight) {
  const auto [type, dims] = GetParam();
  const std::vector<Trial> trials =
      trials_of(chosen().facts(), kDtypes[type], kDims[dims], 3 * type + dims);
  std::vector<plan::KernelPlan> plans;
  std::vector<std::shared_future<jit::CodeObject>> compiles;
  for (const Trial& trial : trials) {
    plans.push_back(chosen().plan(RaggedData(trial.call).problem(), trial.config));
    ASSERT_EQ(plans.back().tile.numbers, trial.config) << "the family did not take the config";
    compiles.push_back(chosen().provider().get_async(plans.back().spec));
  }
  for (std::size_t i = 0; i < trials.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << plans[i].config << "\n"
                                      << plans[i].spec.family << " " << trials[i].call);
    try {
      expect_right(trials[i], plans[i], compiles[i].get());
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Listed, ListedConfigs,
                         ::testing::Combine(::testing::Range<std::size_t>(0, std::size(kDtypes)),
                                            ::testing::Range<std::size_t>(0, std::size(kDims))),
                         [](const auto& shard) {
                           const Dims dims = kDims[std::get<1>(shard.param)];
                           std::string name =
                               std::string(to_string(kDtypes[std::get<0>(shard.param)])) + "_d" +
                               std::to_string(dims.head_dim);
                           if (dims.value_head_dim != dims.head_dim)
                             name += "_" + std::to_string(dims.value_head_dim);
                           return name;
                         });

}  // namespace
}  // namespace hipflash::testing
