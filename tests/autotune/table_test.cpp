// Which tuned config a plan gets: pure functions of documents and a key.
#include <gmock/gmock.h>

#include "autotune/tuning_table.h"
#include "plan/cpu_plan.h"
#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"
#include "tuning_testing.h"

namespace hipflash::autotune {
namespace {

using plan::TileNumbers;
using plan::TileOrigin;
using ::testing::HasSubstr;

const TileNumbers kStandard = tile(4, 64);

std::string hash_is_text(const std::string&) {
  return "text";
}

plan::TileSource::Answer ask(const TuningTable& table, const plan::TileKey& key) {
  return table.find(key, kStandard, [] {
    return std::vector<TileNumbers>{tile(4, 32), tile(8, 64), tile(8, 32)};
  });
}

TEST(SizeBucket, IsTheRoundedLogarithm) {
  for (const auto& [count, bucket] : std::vector<std::pair<long long, int>>{{0, 0},
                                                                            {1, 0},
                                                                            {2, 1},
                                                                            {3, 2},
                                                                            {5, 2},
                                                                            {6, 3},
                                                                            {1448, 10},
                                                                            {1449, 11},
                                                                            {2048, 11},
                                                                            {2896, 11},
                                                                            {2897, 12},
                                                                            {1LL << 40, 40}}) {
    EXPECT_EQ(plan::size_bucket(count), bucket) << count;
  }
}

TEST(TuningTable, WithoutResultsTheDefaultServesAndTheMissIsCounted) {
  const TuningTable table(mi300(), hash_is_text);
  const auto answer = ask(table, key_of(128, 11, 11));
  EXPECT_EQ(answer.origin, TileOrigin::built_in);
  EXPECT_TRUE(answer.numbers.empty());
  EXPECT_EQ(answer.why, "not tuned");
  EXPECT_EQ(table.counts().missing, 1u);
}

TEST(TuningTable, ExactBeatsNeighbourBeatsDefault) {
  TuningTable table(mi300(), hash_is_text);
  table.add(document(mi300(), {entry(key_of(128, 11, 11), tile(4, 32)),
                               entry(key_of(128, 12, 12), tile(8, 64))}),
            DocumentSource::user);
  const auto exact = ask(table, key_of(128, 12, 12));
  EXPECT_EQ(exact.origin, TileOrigin::exact);
  EXPECT_EQ(exact.numbers, tile(8, 64));
  EXPECT_THAT(exact.why, HasSubstr("25.0% faster"));

  EXPECT_EQ(ask(table, key_of(128, 10, 10)).numbers, tile(4, 32));
  EXPECT_EQ(ask(table, key_of(128, 13, 13)).numbers, tile(8, 64));
  const auto other_dim = ask(table, key_of(96, 11, 11));
  EXPECT_EQ(other_dim.origin, TileOrigin::neighbour);
  EXPECT_EQ(other_dim.numbers, tile(4, 32));
  EXPECT_THAT(other_dim.why, HasSubstr("nearest: d128, about 2048 queries"));

  EXPECT_EQ(ask(table, key_of(64, 11, 11)).origin, TileOrigin::built_in);  // a factor of 2
  EXPECT_EQ(ask(table, key_of(128, 0, 11)).origin,
            TileOrigin::built_in);  // one query is no prefill
  plan::TileKey other = key_of(128, 11, 11);
  other.features = "dense";
  EXPECT_EQ(ask(table, other).origin, TileOrigin::built_in);
  EXPECT_EQ(table.counts().exact, 1u);
  EXPECT_EQ(table.counts().neighbour, 3u);
  EXPECT_EQ(table.counts().missing, 3u);
}

TEST(TuningTable, ADefaultThatWonIsTheNeighboursOwnDefault) {
  TuningTable table(mi300(), hash_is_text);
  Entry won = entry(key_of(128, 11, 11), kStandard);
  won.is_default = true;
  table.add(document(mi300(), {won}), DocumentSource::user);
  const auto answer = ask(table, key_of(96, 11, 11));
  EXPECT_EQ(answer.origin, TileOrigin::neighbour);
  EXPECT_TRUE(answer.numbers.empty());
  EXPECT_THAT(answer.why, HasSubstr("nothing beat the default"));
}

TEST(TuningTable, ACardOfTheArchitectureIsANeighbourAndTheUserComesFirst) {
  Fingerprint other = mi300();
  other.name = "AMD Instinct MI325X";
  other.arch = "gfx942";
  TuningTable table(mi300(), hash_is_text);
  table.add(document(other, {entry(key_of(128, 11, 11), tile(8, 64))}), DocumentSource::shipped);
  const auto answer = ask(table, key_of(128, 11, 11));
  EXPECT_EQ(answer.origin, TileOrigin::neighbour);
  EXPECT_EQ(answer.numbers, tile(8, 64));
  EXPECT_THAT(answer.why, HasSubstr("on AMD Instinct MI325X"));

  table.add(document(mi300(), {entry(key_of(128, 11, 11), tile(4, 32))}), DocumentSource::user);
  table.add(document(mi300(), {entry(key_of(128, 11, 11), tile(8, 32))}), DocumentSource::shipped);
  EXPECT_EQ(ask(table, key_of(128, 11, 11)).numbers, tile(4, 32));

  Fingerprint stranger = mi300();
  stranger.arch = "gfx950";
  TuningTable strangers(stranger, hash_is_text);
  strangers.add(document(mi300(), {entry(key_of(128, 11, 11), tile(4, 32))}), DocumentSource::user);
  EXPECT_EQ(strangers.size(), 0u);
}

TEST(TuningTable, ProcessorsOfAnotherModelAreStrangers) {
  const Fingerprint epyc = {"cpu", "AMD EPYC", "cpu-avx512", 2, 0, 0};
  Fingerprint more = epyc, xeon = epyc;
  more.compute_units = 64;
  xeon.name = "Intel Xeon";
  EXPECT_TRUE(is_relative(epyc, more));
  EXPECT_FALSE(is_relative(epyc, xeon));
  EXPECT_NE(file_stem(epyc), file_stem(more));
}

TEST(TuningTable, ResultsOfAnotherTextDoNotCountUnlessTheyAreShipped) {
  const Document old = document(mi300(), {entry(key_of(128, 11, 11), tile(4, 32), "old")}, {});
  TuningTable table(mi300(), hash_is_text);
  table.add(old, DocumentSource::user);
  table.add(old, DocumentSource::pack);
  EXPECT_EQ(table.size(), 0u);
  table.add(old, DocumentSource::shipped);
  EXPECT_EQ(table.size(), 1u);
}

TEST(TuningTable, AConfigThatTheFamilyCannotTakeIsPassedOver) {
  TuningTable table(mi300(), hash_is_text);
  table.add(document(mi300(), {entry(key_of(128, 11, 11), tile(16, 999)),
                               entry(key_of(128, 12, 12), tile(4, 32)),
                               entry(key_of(128, 10, 10), {{"stages", 4}})}),
            DocumentSource::user);
  const auto answer = ask(table, key_of(128, 11, 11));
  EXPECT_EQ(answer.origin, TileOrigin::neighbour);
  EXPECT_EQ(answer.numbers, tile(4, 32));
}

TEST(TuningTable, QuarantineIsNeverChosen) {
  TuningTable table(mi300(), hash_is_text);
  table.add(document(mi300(), {entry(key_of(128, 11, 11), tile(4, 32))},
                     {quarantined(key_of(128, 11, 11), tile(4, 32), "wrong"),
                      quarantined(key_of(128, 11, 11), kStandard, "hangs")}),
            DocumentSource::user);
  // The default is out too: the first candidate that is not serves.
  const auto answer = ask(table, key_of(128, 11, 11));
  EXPECT_EQ(answer.numbers, tile(8, 64));
  EXPECT_THAT(answer.why, HasSubstr("hangs"));
  EXPECT_EQ(table.quarantine_reason(key_of(128, 3, 3), tile(4, 32)), "wrong");  // any size
  EXPECT_EQ(table.quarantine_reason(key_of(64, 11, 11), tile(4, 32)), "");
}

Problem problem(DType dtype, std::int64_t seq, std::int64_t dim) {
  return plan::dense_problem({dtype, 1, 16, 16, seq, seq, dim, false});
}

// Gives every plan the last of its candidates.
class LastCandidate : public plan::TileSource {
 public:
  Answer find(const plan::TileKey& key, const TileNumbers&, const Candidates& list) const override {
    asked = key;
    const std::vector<TileNumbers> all = list();
    if (all.empty()) return {TileOrigin::built_in, {}, "last"};
    return {TileOrigin::exact, all.back(), "last"};
  }
  mutable plan::TileKey asked;
};

TEST(Plans, TakeTheTunedConfigIntoSpecLaunchAndExplanation) {
  const LastCandidate last;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const std::int64_t dim : {32, 40, 64, 128, 256, 512}) {
      const Problem p = problem(dtype, 1000, dim);
      for (const char* arch : {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030",
                               "gfx1100", "gfx1201", "sm_80", "sm_89", "sm_90a"}) {
        const platform::DeviceFacts facts = plan::facts_of_architecture(arch);
        const plan::KernelPlan standard = plan::plan_gpu(p, facts);
        const plan::KernelPlan tuned = plan::plan_gpu(p, facts, &last);
        EXPECT_EQ(standard.tile.origin, TileOrigin::built_in);
        EXPECT_EQ(last.asked, standard.tile.key);
        // Few configs fit the largest rows, on some cards the default alone.
        if (dim <= 256) {
          EXPECT_EQ(tuned.tile.origin, TileOrigin::exact) << arch << " d" << dim;
        }
        for (const auto& [name, value] : tuned.tile.numbers) {
          const std::string line = name + " = " + std::to_string(value) + ";";
          EXPECT_THAT(tuned.spec.facts, HasSubstr(line)) << arch << " d" << dim;
        }
        EXPECT_THAT(tuned.reason, HasSubstr("last"));
        const auto& launch = std::get<platform::GpuLaunch>(tuned.launch);
        EXPECT_LE(launch.forward.shared_bytes, facts.shared_bytes);
        EXPECT_LE(launch.forward.threads, 1024u);
      }
      for (const CpuIsa isa : {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512}) {
        const plan::KernelPlan tuned = plan::plan_cpu(p, isa, 2, plan::Kernel::specialized, &last);
        EXPECT_EQ(tuned.tile.origin, TileOrigin::exact);
        EXPECT_NE(tuned.spec, plan::plan_cpu(p, isa, 2).spec);
      }
    }
  }
}

TEST(Plans, BatchInvariantCallsDoNotAskWhatDependsOnTheBatch) {
  const LastCandidate last;
  Problem p = problem(DType::f16, 1000, 64);
  p.batch_invariant = true;
  const platform::DeviceFacts facts = plan::facts_of_architecture("gfx942");
  EXPECT_EQ(plan::plan_gpu(p, facts, &last).spec, plan::plan_gpu(p, facts).spec);
  EXPECT_EQ(plan::plan_cpu(p, CpuIsa::avx2, 2, plan::Kernel::specialized, &last).spec,
            plan::plan_cpu(p, CpuIsa::avx2, 2).spec);
}

TEST(Plans, FewQueriesAreAClassOfTheirOwn) {
  const platform::DeviceFacts facts = plan::facts_of_architecture("sm_90a");
  Problem p = problem(DType::f16, 4096, 64);
  p.seq_q = 1;
  EXPECT_THAT(plan::plan_gpu(p, facts).tile.key.features, HasSubstr("packed"));
}

}  // namespace
}  // namespace hipflash::autotune
