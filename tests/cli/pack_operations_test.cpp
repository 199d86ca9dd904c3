// Packs of operations beside attention, and what `pack verify` says of workloads that hold them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "hipflash/kv_cache.h"
#include "hipflash/merge.h"
#include "hipflash/pack.h"
#include "hipflash/prebuilt.h"
#include "hipflash/workload.h"
#include "pack_testing.h"

namespace hipflash::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::int64_t kDim = 24;

// A cache of 8 places that holds 3 keys and takes 2 more, and two partial results that are merged.
class OperationsInContext : public PackInContext {
 protected:
  struct Results {
    std::vector<float> keys, values, merged;
    bool operator==(const Results&) const = default;
  };

  Results solve(Context& ctx) {
    Results results{keys_, values_, std::vector<float>(part_a_.size(), NAN)};
    AppendOptions options;
    options.cache.lengths = lengths_.data();
    append_kv(ctx, rows(new_keys_, 2), rows(new_values_, 2), rows(results.keys, 8),
              rows(results.values, 8), options);
    merge_partials(ctx, {part(part_a_, lse_a_), part(part_b_, lse_b_)}, rows(results.merged, 2));
    return results;
  }
  std::set<std::string> tiers(Context& ctx) {
    Results to{keys_, values_, part_a_};
    AppendOptions options;
    options.cache.lengths = lengths_.data();
    return {explain_append_kv(ctx, rows(new_keys_, 2), rows(new_values_, 2), rows(to.keys, 8),
                              rows(to.values, 8), options)
                .tier,
            explain_merge_partials(ctx, {part(part_a_, lse_a_), part(part_b_, lse_b_)},
                                   rows(to.merged, 2))
                .tier};
  }

 private:
  static std::vector<float> random(std::int64_t sequence, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> data(static_cast<std::size_t>(sequence * 2 * kDim));
    for (float& x : data) x = normal(generator);
    return data;
  }
  static Tensor rows(std::vector<float>& data, std::int64_t sequence) {
    return Tensor::bshd(data.data(), DType::f32, 1, sequence, 2, kDim);
  }
  static PartialResult part(std::vector<float>& out, std::vector<float>& lse) {
    PartialResult made;
    made.out = rows(out, 2);
    made.lse.data = lse.data();
    return made;
  }

  std::vector<float> new_keys_ = random(2, 1), new_values_ = random(2, 2), keys_ = random(8, 3),
                     values_ = random(8, 4), part_a_ = random(2, 5), part_b_ = random(2, 6);
  std::vector<float> lse_a_ = {0.5F, -1, 2, 0}, lse_b_ = {1, 1.5F, -2, 0.25F};
  std::vector<std::int32_t> lengths_ = {3};
};

TEST_F(OperationsInContext, RecordedThenPackedAndRunWithoutACompiler) {
  const std::string file = (folder_ / "recorded.jsonl").string();
  Results expected;
  {
    const WithCompiler here;
    const Env record("HIPFLASH_RECORD", file.c_str());
    Context ctx(DeviceId{}, {});
    expected = solve(ctx);
    EXPECT_EQ(solve(ctx), expected);
  }
  const std::vector<WorkloadItem> items = read_workload(file);
  std::set<std::string> names;
  for (const WorkloadItem& item : items) names.insert(item.operation.name);
  EXPECT_EQ(names, (std::set<std::string>{"append_kv", "merge_partials"}));
  EXPECT_EQ(items.size(), 2u);
  {
    const WithCompiler here;
    good("pack create -o app.hfpack --workload recorded.jsonl");
  }
  good("pack verify app.hfpack --workload recorded.jsonl");

  const Env never("HIPFLASH_COMPILE", "never");
  Context ctx(DeviceId{}, deployed());
  EXPECT_EQ(tiers(ctx), std::set<std::string>{"prebuilt"});
  EXPECT_EQ(solve(ctx), expected);
}

TEST_F(OperationsInContext, WhatIsMissingIsNamedWithTheCommandThatAddsIt) {
  const Env never("HIPFLASH_COMPILE", "never");
  ContextOptions options = deployed();
  options.prebuilt.clear();
  // The first lacks both, the second what merges.
  for (const char* name : {"append_kv", "merge_partials"}) {
    std::string said;
    try {
      Context ctx(DeviceId{}, options);
      solve(ctx);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::NotSupported);
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr(name));
    const std::size_t begin = said.find("`hipflash pack create"), end = said.find('`', begin + 1);
    ASSERT_NE(end, std::string::npos) << said;
    {
      const WithCompiler here;
      const Env compile("HIPFLASH_COMPILE", nullptr);
      good(said.substr(begin + 10, end - begin - 10));
    }
    std::filesystem::rename(folder_ / "more.hfpack", folder_ / (std::string(name) + ".hfpack"));
    options.prebuilt.push_back((folder_ / (std::string(name) + ".hfpack")).string());
  }
  Context ctx(DeviceId{}, options);
  EXPECT_EQ(tiers(ctx), std::set<std::string>{"prebuilt"});
  solve(ctx);
}

// Two items without an architecture, and packs for one architecture or another.
class ItemsOfAnyArchitecture : public PackCommand {
 protected:
  using List = std::vector<std::string>;

  void SetUp() override {
    PackCommand::SetUp();
    std::ofstream(folder_ / "any.jsonl")
        << R"({"problem":{"dtype":"f32","heads_q":1,"seq_q":8,"head_dim":24}})"
        << "\n"
        << R"({"operation":{"name":"merge_partials","dtype":"f16","head_dim":64}})"
        << "\n";
  }

  // A pack that holds both items, and one that holds something else.
  void make_whole(const std::string& arch, const std::string& name) {
    good("pack create --no-tuned --workload any.jsonl --arch " + arch + " -o " + name);
  }
  void make_other(const std::string& arch, const std::string& name) {
    good("pack create --no-tuned --dtype f32 --head-dim 16 --arch " + arch + " -o " + name);
  }

  // The architectures for which `pack verify` finds an item missing.
  List lacks(const std::string& packs) {
    const Result result = run("pack verify --json --workload any.jsonl " + packs);
    List lacking;
    const json missing = json::parse(result.out)["missing"];
    for (const json& one : missing) lacking.push_back(one["arch"]);
    EXPECT_EQ(result.exit_code, lacking.empty() ? 0 : 1) << result.errors;
    return lacking;
  }

  const List archs_ = cpu_architectures();
};

TEST_F(ItemsOfAnyArchitecture, AnyOfThePacksMayHaveThem) {
  const std::string& here = archs_.front();
  make_whole(here, "whole.hfpack");
  EXPECT_EQ(lacks("whole.hfpack"), List{});
  make_other(here, "other.hfpack");
  EXPECT_EQ(lacks("other.hfpack"), (List{here, here}));
  EXPECT_EQ(lacks("other.hfpack whole.hfpack"), List{});
}

// What one pack has for one architecture does not serve the other's.
TEST_F(ItemsOfAnyArchitecture, EachArchitectureOfThePacksNeedsThem) {
  if (archs_.size() == 1) GTEST_SKIP() << "it takes two architectures, here is one";
  const std::string &here = archs_[0], &there = archs_[1];
  make_whole(here, "whole.hfpack");
  make_other(there, "there.hfpack");
  EXPECT_EQ(lacks("whole.hfpack there.hfpack"), (List{there, there}));
  EXPECT_EQ(lacks("there.hfpack whole.hfpack"), (List{there, there}));
  make_whole(there, "more.hfpack");
  EXPECT_EQ(lacks("there.hfpack whole.hfpack more.hfpack"), List{});
}

// Compute units that an item names without an architecture count as they do for `pack create`.
TEST_F(PackCommand, VerifyTakesComputeUnitsAsCreateDoes) {
  std::ofstream(folder_ / "one.jsonl")
      << R"({"compute_units":1,"problem":{"dtype":"f32","heads_q":1,"seq_q":1,"seq_k":8192,)"
      << R"("head_dim":24}})"
      << "\n";
  good("pack create --no-tuned -o one.hfpack --workload one.jsonl --arch " +
       cpu_architectures().front());
  EXPECT_EQ(pack::list((folder_ / "one.hfpack").string()).kernels.size(), 1u);
  good("pack verify one.hfpack --workload one.jsonl");
}

}  // namespace
}  // namespace hipflash::cli
