// How GPU families turn rows into blocks and split keys.
#include "plan/row_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>

#include "api/planning.h"
#include "plan/dense_problem.h"
#include "plan/gpu_plan.h"

namespace hipflash::plan {
namespace {

Problem decoding(std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv,
                 std::int64_t queries, std::int64_t keys) {
  return dense_problem({DType::f16, batch, heads_q, heads_kv, queries, keys, 128, false});
}

platform::DeviceFacts device(const char* arch, int units) {
  platform::DeviceFacts facts = facts_of_architecture(arch);
  facts.compute_units = units;
  return facts;
}

bool packed(const KernelPlan& plan) {
  return plan.spec.facts.find("pack_heads = 1") != std::string::npos;
}

TEST(RowTiles, HeadsArePackedWhereTheyFillTiles) {
  EXPECT_TRUE(packs_heads(decoding(1, 32, 8, 1, 8192), 128));
  EXPECT_TRUE(packs_heads(decoding(1, 32, 8, 64, 8192), 128));
  EXPECT_FALSE(packs_heads(decoding(1, 32, 32, 1, 8192), 128)) << "a group of one";
  EXPECT_FALSE(packs_heads(decoding(1, 32, 8, 4096, 8192), 128)) << "full tiles";
  EXPECT_FALSE(packs_heads(decoding(1, 32, 8, 127, 8192), 128)) << "all but full";
}

TEST(RowTiles, TilesOfPackedSequencesNeedNoLengths) {
  Problem p = decoding(3, 8, 2, 40, 40);
  p.features.varlen = p.ragged.packed_q = true;
  p.ragged.total_q = 100;
  AttentionArgs args = {};
  args.batch = 3;
  args.heads_q = 8;
  args.heads_kv = 2;
  args.total_q = 100;
  EXPECT_EQ(row_tiles(p, args, 64, false), 100 / 64 + 3);
  EXPECT_EQ(row_tiles(p, args, 64, true), 400 / 64 + 3);
  p.ragged.packed_q = false;
  args.seq_q = 40;
  EXPECT_EQ(row_tiles(p, args, 64, true), 3 * 3);
}

TEST(RowTiles, PartsOfABlockShareKeysWhereBlocksAreFew) {
  const auto parts = [](const KernelPlan& plan) {
    for (const auto& [name, number] : plan.tile.numbers) {
      if (name == "key_parts") return number;
    }
    return 0;
  };
  const auto plan = [](std::int64_t batch, const char* arch = "sm_90a", int queries = 1,
                       int keys = 65536) {
    return plan_gpu(decoding(batch, 32, 8, queries, keys), device(arch, 132));
  };
  const KernelPlan one_each = plan(16);
  EXPECT_EQ(parts(one_each), 4) << "a block for each multiprocessor";
  EXPECT_EQ(one_each.args.splits, 1);
  const auto& launch = std::get<platform::GpuLaunch>(one_each.launch);
  EXPECT_EQ(launch.merge.blocks, 0U);
  EXPECT_EQ(launch.forward.threads, 128U);
  EXPECT_EQ(launch.forward.thread_rows, 4U);
  EXPECT_EQ(parts(plan(1)), 4);
  EXPECT_EQ(plan(1).args.splits, 16) << "8 blocks on 132 multiprocessors";
  EXPECT_EQ(parts(plan(1, "sm_90a", 8)), 3) << "32 rows: four do not fit with pages";
  EXPECT_EQ(parts(plan(64)), 1) << "small blocks fill the device";
  EXPECT_EQ(parts(plan(1, "sm_90a", 1, 8192)), 1) << "few keys for each of 64 parts";
  EXPECT_EQ(parts(plan(1, "sm_86")), 1) << "the shared memory of one";
  Problem invariant = decoding(1, 32, 8, 1, 65536);
  invariant.batch_invariant = true;
  EXPECT_EQ(parts(plan_gpu(invariant, device("sm_90a", 132))), 1) << "whatever the batch";
}

TEST(RowTiles, KernelsMadeAheadServeDevicesOfAnySize) {
  api::KernelRequest request;
  request.dtype = DType::f16;
  request.head_dim = request.value_head_dim = 128;
  std::vector<jit::Spec> made;
  for (const Problem& problem : api::usual_problems(request)) {
    for (const jit::Spec& spec : api::specs_for(problem, "sm_90a", 0)) made.push_back(spec);
  }
  for (const int units : {16, 78, 108, 114, 132, 148}) {
    for (const std::int64_t batch : {1, 3, 8, 12, 16, 24, 64}) {
      for (const std::int64_t heads_kv : {4, 8, 32}) {
        for (const std::int64_t keys : {500, 2048, 8192, 32768, 131072}) {
          const KernelPlan plan =
              plan_gpu(decoding(batch, 32, heads_kv, 1, keys), device("sm_90a", units));
          EXPECT_NE(std::find(made.begin(), made.end(), plan.spec), made.end())
              << units << " units, batch " << batch << ", " << heads_kv << " heads, " << keys
              << " keys: " << plan.config;
        }
      }
    }
  }
}

TEST(RowTiles, KernelsMadeForARecordedProblemServeDevicesOfAnySize) {
  for (const bool packed_q : {false, true}) {
    for (const std::int64_t batch : {1, 3, 12, 16, 40}) {
      for (const std::int64_t heads_kv : {4, 8, 32}) {
        for (const std::int64_t keys : {500, 8192, 131072}) {
          Problem problem = decoding(batch, 32, heads_kv, 1, keys);
          if (packed_q) {
            problem.features.varlen = problem.ragged.packed_q = true;
            problem.ragged.total_q = batch;
          }
          const std::vector<jit::Spec> made = api::specs_for(problem, "sm_90a", 0);
          for (const int units : {16, 78, 108, 114, 132, 148}) {
            const KernelPlan plan = plan_gpu(problem, device("sm_90a", units));
            EXPECT_NE(std::find(made.begin(), made.end(), plan.spec), made.end())
                << (packed_q ? "packed, " : "") << units << " units, batch " << batch << ", "
                << heads_kv << " heads, " << keys << " keys: " << plan.config;
          }
        }
      }
    }
  }
}

TEST(RowTiles, ShortSequencesAreOneStepOnCdna) {
  const auto step = [](const Problem& p) {
    const KernelPlan plan = plan_gpu(p, device("gfx942", 304));
    for (const auto& [name, value] : plan.tile.numbers) {
      if (name == "tile_keys") return value;
    }
    return 0;
  };
  for (const std::int64_t dim : {32, 64, 96, 128}) {
    Problem p = decoding(64, 768 / dim, 768 / dim, 64, 64);
    p.head_dim = p.value_head_dim = dim;
    p.set_dense_bshd();
    EXPECT_EQ(step(p), 64) << dim;
    p.seq_k = 33;
    p.causal = true;
    EXPECT_EQ(step(p), 64) << dim;
    p.seq_k = 32;
    EXPECT_EQ(step(p), 32) << "all of the keys of a smaller tile";
    p.seq_k = 65;
    EXPECT_EQ(step(p), 32) << "more than one step";
    p.seq_k = 64;
    p.softcap = 3.0f;
    EXPECT_EQ(step(p), 32) << "registers";
  }
}

TEST(RowTiles, SplitsFillTheDevice) {
  EXPECT_EQ(key_splits(300, 304, 100000, 32), 1) << "busy without";
  EXPECT_EQ(key_splits(8, 1000, 128, 32), 1) << "few keys";
  EXPECT_EQ(key_splits(1, 0, 100000, 32), 1) << "an unknown device";
  EXPECT_EQ(key_splits(0, 304, 100000, 32), 1);
  // 8 blocks on 304 slots: 33 parts fill 86.8% of a round; 38 parts would fill it all.
  EXPECT_EQ(key_splits(8, 304, 100000, 32), 33);
  // No part below two tiles.
  EXPECT_LE(key_splits(8, 304, 640, 32), 10);
}

TEST(RowTiles, InvariantSplitsLieAtFixedPositions) {
  for (const std::int64_t batch : {1, 64}) {
    for (const std::int64_t keys : {100, 1024, 5000}) {
      Problem p = decoding(batch, 32, 8, 1, keys);
      p.batch_invariant = true;
      AttentionArgs args = {};
      args.seq_q = 1;
      args.heads_q = 32;
      args.heads_kv = 8;
      args.seq_k = static_cast<int>(keys);
      const InvariantSplit split = invariant_split(p, args);
      EXPECT_EQ(split.keys_per_split, kInvariantKeys);
      EXPECT_GE(split.splits, 2) << "one path for every length";
      EXPECT_GE(split.splits * kInvariantKeys, keys);
      args.seq_q = 100;
      p.seq_q = 100;
      EXPECT_EQ(invariant_split(p, args).splits, 1) << "not decoding";
    }
  }
}

TEST(RowTiles, ABatchInvariantCallHasOneKernel) {
  for (const char* arch : {"gfx942", "gfx1100", "gfx906", "sm_90a", "sm_80"}) {
    for (const std::int64_t queries : {1, 300}) {
      for (const std::int64_t dim : {64, 128}) {
        Problem alone = decoding(1, 32, 8, queries, 500);
        alone.head_dim = alone.value_head_dim = dim;
        alone.batch_invariant = true;
        alone.features.kv_cache = alone.ragged.lengths = true;
        Problem together = alone;
        together.batch = 64;
        together.seq_k = 9000;
        const KernelPlan a = plan_gpu(alone, device(arch, 100)),
                         b = plan_gpu(together, device(arch, 100));
        EXPECT_EQ(a.spec.facts, b.spec.facts) << arch;
        EXPECT_EQ(a.args.keys_per_split, b.args.keys_per_split) << arch;
      }
    }
    // Of packed sequences only the longest is known, which differs from batch to batch.
    Problem one = decoding(1, 32, 8, 1, 500);
    one.batch_invariant = true;
    one.features.varlen = one.ragged.packed_q = true;
    one.ragged.total_q = 1;
    Problem many = one;
    many.batch = 9;
    many.seq_q = 200;
    many.ragged.total_q = 700;
    EXPECT_EQ(plan_gpu(one, device(arch, 100)).spec.facts,
              plan_gpu(many, device(arch, 100)).spec.facts);
  }
}

// A plan whose tiles do not divide its parts is an error by itself.
TEST(RowTiles, PartsOfABatchInvariantCallAreWholeTiles) {
  for (const char* arch : {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201",
                           "sm_80", "sm_86", "sm_90a", "sm_120"}) {
    for (const DType dtype : {DType::f16, DType::f32}) {
      for (int dim = 16; dim <= 512; dim += 16) {
        for (const std::int64_t queries : {1, 48}) {
          Problem p = dense_problem({dtype, 1, 4, 4, queries, 2048, dim, true});
          p.batch_invariant = true;
          EXPECT_EQ(plan_gpu(p, device(arch, 100)).args.keys_per_split, kInvariantKeys)
              << arch << " " << dim;
        }
      }
    }
  }
}

TEST(RowTiles, PagedCallsFitTheSharedMemory) {
  for (const char* arch : {"sm_80", "sm_86", "sm_90a", "sm_120"}) {
    for (const DType dtype : {DType::f16, DType::f32}) {
      for (int dim = 8; dim <= 512; dim += 8) {
        for (const int value_dim : {dim, 128}) {
          Problem p = dense_problem({dtype, 4, 8, 8, 300, 2048, dim, true});
          p.value_head_dim = value_dim;
          p.strict_f32 = dtype == DType::f32;
          p.features.kv_cache = p.features.paged_kv = p.ragged.lengths = true;
          p.ragged.page_size = 16;
          const platform::DeviceFacts facts = device(arch, 100);
          const KernelPlan plan = plan_gpu(p, facts);
          EXPECT_LE(std::get<platform::GpuLaunch>(plan.launch).forward.shared_bytes,
                    facts.shared_bytes)
              << arch << " " << dim << "/" << value_dim;
        }
      }
    }
  }
}

TEST(RowTiles, ABatchInvariantCallHasTheSameTileWithPages) {
  for (const char* arch : {"gfx942", "gfx1100", "gfx906", "sm_90a", "sm_80"}) {
    for (const DType dtype : {DType::f16, DType::f32}) {
      for (const std::int64_t dim : {64, 128, 256}) {
        for (const std::int64_t queries : {1, 300}) {
          Problem dense = decoding(3, 32, 8, queries, 500);
          dense.dtype = dtype;
          dense.head_dim = dense.value_head_dim = dim;
          dense.batch_invariant = true;
          dense.features.kv_cache = dense.ragged.lengths = true;
          Problem paged = dense;
          paged.features.paged_kv = true;
          paged.ragged.page_size = 20;
          paged.ragged.pages = 100;
          EXPECT_EQ(plan_gpu(dense, device(arch, 100)).config,
                    plan_gpu(paged, device(arch, 100)).config)
              << arch << " d" << dim;
        }
      }
    }
  }
}

TEST(RowTiles, DecodingPacksAndSplits) {
  for (const char* arch :
       {"gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx906", "gfx1030", "sm_90a", "sm_80"}) {
    const KernelPlan plan = plan_gpu(decoding(1, 32, 8, 1, 16384), device(arch, 100));
    EXPECT_TRUE(packed(plan)) << arch;
    EXPECT_GT(plan.args.splits, 1) << arch;
    EXPECT_FALSE(packed(plan_gpu(decoding(1, 32, 8, 2048, 2048), device(arch, 100)))) << arch;
    EXPECT_EQ(plan_gpu(decoding(1, 32, 8, 1, 16384), facts_of_architecture(arch)).args.splits, 1)
        << arch;
  }
}

}  // namespace
}  // namespace hipflash::plan
