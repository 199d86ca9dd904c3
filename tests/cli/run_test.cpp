// `hipflash run` as a user runs it: a process with arguments, files, an exit code and output.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "command_inputs.h"
#include "plan/dense_problem.h"
#include "verify/convert.h"
#include "verify/reference.h"

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST_F(CommandTest, FirstProcessCompilesSecondLoadsFromDisk) {
  const Result first = run(run_line("-o out.npy --lse lse.npy --causal --verify --json"));
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.errors, "");
  const json one = json::parse(first.out);
  for (const char* key : {"device", "kernel", "config", "key", "tier"}) {
    EXPECT_TRUE(one.at(key).is_string()) << key;
  }
  for (const char* key : {"compile_ms", "load_ms", "run_ms", "gflops", "max_error"}) {
    EXPECT_TRUE(one.at(key).is_number()) << key;
  }
  EXPECT_EQ(one["device"], "cpu");
  EXPECT_EQ(one["tier"], "compiled");
  EXPECT_GT(one["compile_ms"], 0);
  EXPECT_EQ(one["verified"], true);
  EXPECT_LT(one["max_error"], 1e-5);
  const std::string bytes = text_of(folder_ / "out.npy");

  const Result second = run(run_line("-o out.npy --lse lse.npy --causal --json"));
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  const json two = json::parse(second.out);
  EXPECT_EQ(two["tier"], "disk");
  EXPECT_EQ(two["compile_ms"], 0);
  EXPECT_EQ(two["key"], one["key"]);
  EXPECT_FALSE(two.contains("max_error"));
  EXPECT_EQ(text_of(folder_ / "out.npy"), bytes);
  EXPECT_EQ(read_npy(folder_ / "out.npy").shape, (std::vector<std::int64_t>{2, 5, 4, 24}));
  EXPECT_EQ(read_npy(folder_ / "lse.npy").shape, (std::vector<std::int64_t>{2, 4, 5}));
}

// The file on disk against a reference computed here, not by the command.
TEST_F(CommandTest, TheOutputFileIsAttention) {
  ASSERT_EQ(run(run_line("-o out.npy --window 2,1 --softcap 4 --scale 0.3")).exit_code, 0);
  const NpyArray q = read_npy(folder_ / "q.npy"), k = read_npy(folder_ / "k.npy");
  const NpyArray v = read_npy(folder_ / "v.npy"), out = read_npy(folder_ / "out.npy");
  Problem problem = plan::dense_problem({DType::f32, 2, 4, 2, 5, 7, 16, false});
  problem.value_head_dim = 24;
  problem.scale = 0.3f;
  problem.window = {2, 1};
  problem.softcap = 4;
  problem.set_dense_bshd();
  TensorPointers tensors;
  tensors.q = q.data.data();
  tensors.k = k.data.data();
  tensors.v = v.data.data();
  tensors.out = out.data.data();
  const verify::Verdict verdict = verify::check(problem, tensors);
  EXPECT_TRUE(verdict.ok()) << verdict.text();
}

TEST_F(CommandTest, ThreeDimensionsAreOneSequence) {
  write("q3.npy", {3, 6, 8}, 4);  // bhsd without batch: 3 heads, 6 queries
  write("k3.npy", {1, 9, 8}, 5);
  const Result result =
      run("run --q q3.npy --k k3.npy --v k3.npy -o out.npy --lse lse.npy --layout bhsd --verify");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.out.find("verify  right"), std::string::npos) << result.out;
  EXPECT_EQ(read_npy(folder_ / "out.npy").shape, (std::vector<std::int64_t>{3, 6, 8}));
  EXPECT_EQ(read_npy(folder_ / "lse.npy").shape, (std::vector<std::int64_t>{3, 6}));
}

TEST_F(CommandTest, SixteenBitTypes) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> values(4 * 2 * 8);
    for (std::size_t i = 0; i < values.size(); ++i) {
      verify::store(dtype, values.data(), static_cast<std::int64_t>(i),
                    std::sin(static_cast<double>(i)));
    }
    const NpyType type = dtype == DType::f16 ? NpyType::f16 : NpyType::u16;
    write_npy(folder_ / "x.npy", type, {1, 4, 2, 8}, std::as_bytes(std::span(values)));
    const std::string name = to_string(dtype);
    const Result result =
        run("run --q x.npy --k x.npy --v x.npy -o out.npy --verify --dtype " + name);
    EXPECT_EQ(result.exit_code, 0) << result.errors << result.out;
    EXPECT_EQ(read_npy(folder_ / "out.npy").type, type);
  }
  expect_failure("run --q x.npy --k x.npy --v x.npy", 2, "--dtype bf16");
  expect_failure("run --q x.npy --k x.npy --v x.npy --dtype f16", 2, "--dtype f16");
}

TEST_F(CommandTest, BiasMaskAndSlopesBroadcast) {
  write("bias.npy", {4, 1, 7}, 6);
  write("slopes.npy", {4}, 7);
  const std::vector<unsigned char> mask = {1, 1, 0, 1, 1, 1, 0};
  write_npy(folder_ / "mask.npy", NpyType::boolean, {7}, std::as_bytes(std::span(mask)));
  const Result result =
      run(run_line("--bias bias.npy --mask mask.npy --alibi slopes.npy --verify"));
  EXPECT_EQ(result.exit_code, 0) << result.errors << result.out;
  expect_failure(run_line("--bias slopes.npy"), 2, "cannot be broadcast");
  expect_failure(run_line("--mask bias.npy"), 2, "--mask is float32");
  expect_failure(run_line("--alibi bias.npy"), 2, "--alibi has shape (4, 1, 7)");
}

TEST_F(CommandTest, PackedPagedAndSinks) {
  const auto whole = [this](const char* name, std::vector<std::int64_t> shape,
                            std::vector<std::int64_t> numbers) {
    write_npy(folder_ / name, NpyType::i64, shape, std::as_bytes(std::span(numbers)));
  };
  write("packed.npy", {10, 2, 8}, 1);
  write("pool.npy", {4, 3, 2, 8}, 2);
  write("sinks.npy", {2}, 3);
  whole("cu.npy", {4}, {0, 6, 6, 10});
  whole("lengths.npy", {3}, {7, 0, 3});
  whole("table.npy", {3, 3}, {3, 0, 1, -1, -1, -1, 2, 9, 9});
  for (const std::string& line :
       {std::string("run --q packed.npy --k packed.npy --v packed.npy --cu-q cu.npy --cu-k cu.npy"),
        std::string("run --q packed.npy --k pool.npy --v pool.npy --cu-q cu.npy"
                    " --kv-lengths lengths.npy --block-table table.npy")}) {
    const Result result =
        run(line + " --sinks sinks.npy --causal -o out.npy --lse lse.npy --verify");
    EXPECT_EQ(result.exit_code, 0) << result.errors << result.out;
    EXPECT_NE(result.out.find("verify  right"), std::string::npos) << result.out;
    EXPECT_EQ(read_npy(folder_ / "out.npy").shape, (std::vector<std::int64_t>{10, 2, 8}));
  }
  const std::string paged = "run --q packed.npy --k pool.npy --v pool.npy --cu-q cu.npy";
  expect_failure(paged + " --block-table table.npy --kv-lengths cu.npy", 2, "--kv-lengths has 4");
  expect_failure(paged + " --block-table lengths.npy", 2, "--block-table has shape (3)");
  expect_failure(paged + " --block-table table.npy", 2, "paged.block_table[1][0] = -1");
  expect_failure(paged + " --block-table sinks.npy", 2, "--block-table is float32");
  expect_failure(paged + " --sinks lengths.npy", 2, "--sinks is int64");
}

TEST_F(CommandTest, SlotsPaddingAndBatchInvariance) {
  const auto whole = [this](const char* name, std::vector<std::int64_t> shape,
                            std::vector<std::int64_t> numbers) {
    write_npy(folder_ / name, NpyType::i64, shape, std::as_bytes(std::span(numbers)));
  };
  write("q2.npy", {2, 3, 2, 8}, 1);
  write("cache.npy", {4, 9, 2, 8}, 2);
  whole("slots.npy", {2}, {3, 1});
  whole("padding.npy", {2}, {0, 4});
  whole("lengths.npy", {2}, {9, 6});
  const std::string line = "run --q q2.npy --k cache.npy --v cache.npy --kv-lengths lengths.npy ";
  const std::string all = line + "--batch-index slots.npy --left-padding padding.npy ";
  for (const char* more : {"--verify -o a.npy", "--verify -o b.npy --batch-invariant"}) {
    const Result result = run(all + more);
    EXPECT_EQ(result.exit_code, 0) << result.errors << result.out;
    EXPECT_NE(result.out.find("verify  right"), std::string::npos) << result.out;
  }
  // Other slots are other keys; padding hides some.
  ASSERT_EQ(run(line + "--batch-index slots.npy -o c.npy").exit_code, 0);
  EXPECT_NE(text_of(folder_ / "a.npy"), text_of(folder_ / "c.npy"));
  expect_failure(line, 2, "k.batch = 4 must equal the number of sequences, 2");
  expect_failure(line + "--batch-index padding.npy --left-padding q2.npy", 2,
                 "--left-padding is float32");
  whole("slots.npy", {2}, {3, 4});
  expect_failure(all, 2, "batch_index[1] = 4");
}

TEST_F(CommandTest, HostileFiles) {
  const std::string good = text_of(folder_ / "q.npy");
  const auto changed = [&good](const std::string& from, const std::string& to) {
    std::string bytes = good;
    bytes.replace(bytes.find(from), from.size(), to);
    return bytes;
  };
  const struct {
    std::string bytes, words;
  } cases[] = {
      {"", "not a .npy file"},
      {good.substr(0, 7), "truncated"},
      {good.substr(0, 40), "truncated"},
      {good.substr(0, good.size() - 1), "truncated"},
      {good + "x", "too long"},
      {changed("<f4", "<c8"), "not supported"},
      {changed("<f4", ">f4"), "big-endian"},
      {changed("(2, 5, 4, 16)", "(9, 5, 4, 16)"), "truncated"},
      {changed("(2, 5, 4, 16)", "(2, 5, 4, -1)"), "malformed"},
      {changed("(2, 5, 4, 16), }       ", "(99999999999, 99999999)}"), "larger than any memory"},
      {changed("'shape'", "'\x01\xff\x1b[m '"), "unknown key"},
  };
  for (const auto& c : cases) {
    write_bytes("bad.npy", c.bytes);
    expect_failure("run --q bad.npy --k k.npy --v v.npy", 1, c.words);
    expect_failure("run --q q.npy --k k.npy --v bad.npy", 1, "bad.npy");
  }
  write("q5.npy", {1, 2, 5, 4, 16}, 1);
  expect_failure("run --q q5.npy --k k.npy --v v.npy", 2, "it must have 4 dimensions");
  write("wide.npy", {1, 2, 1, 513}, 1);
  expect_failure("run --q wide.npy --k wide.npy --v wide.npy", 2, "1 to 512");
}

TEST_F(CommandTest, ShapesThatDoNotFit) {
  write("k3.npy", {2, 7, 3, 16}, 2);
  expect_failure("run --q q.npy --k k3.npy --v k3.npy", 2, "InvalidArgument");
  write("v8.npy", {2, 8, 2, 24}, 2);
  expect_failure("run --q q.npy --k k.npy --v v8.npy", 2, "InvalidArgument");
  write("k17.npy", {2, 7, 2, 17}, 2);
  expect_failure("run --q q.npy --k k17.npy --v v.npy", 2, "InvalidArgument");
  EXPECT_FALSE(fs::exists(folder_ / "out.npy"));
}

TEST_F(CommandTest, PathsThatDoNotWork) {
  expect_failure("run --q missing.npy --k k.npy --v v.npy", 1, "missing.npy: cannot open");
  expect_failure("run --q . --k k.npy --v v.npy", 1, "not a regular file");
  expect_failure(run_line("-o missing/out.npy"), 1, "missing/out.npy: cannot write");
  expect_failure(run_line("-o cache"), 1, "cache");
  EXPECT_EQ(run(run_line("-o /dev/null")).exit_code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  for (const auto& entry : fs::directory_iterator(folder_)) {  // no temporary file is left
    EXPECT_EQ(entry.path().filename().string().rfind("out.npy", 0), std::string::npos);
  }
}

TEST_F(CommandTest, EmptyInputs) {
  write("none.npy", {2, 0, 2, 16}, 1);
  ASSERT_EQ(
      run("run --q q.npy --k none.npy --v none.npy -o out.npy --lse lse.npy --verify").exit_code,
      0);
  const NpyArray lse = read_npy(folder_ / "lse.npy");
  EXPECT_EQ(reinterpret_cast<const float*>(lse.data.data())[0],
            -std::numeric_limits<float>::infinity());
  ASSERT_EQ(run("run --q none.npy --k none.npy --v none.npy -o out.npy").exit_code, 0);
  EXPECT_EQ(read_npy(folder_ / "out.npy").elements(), 0);
}

TEST_F(CommandTest, WithoutACompilerTheBuildsKernelsServe) {
  if (!fs::exists(HIPFLASH_BINARY_DIR "/lib/hipflash/prebuilt")) {
    GTEST_SKIP() << "built without HIPFLASH_GENERAL_KERNELS";
  }
  const std::string none = "HIPFLASH_CXX=/no/such/compiler";
  const Result result = run(run_line("-o out.npy --causal --verify --json"), none);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(json::parse(result.out)["tier"], "prebuilt");
  EXPECT_NE(run("info", none).out.find("prebuilt kernels serve"), std::string::npos);
}

TEST_F(CommandTest, TheMiniLmExample) {
  const std::string data = HIPFLASH_SOURCE_DIR "/examples/minilm/";
  const Result result = run("run --q '" + data + "q.npy' --k '" + data + "k.npy' --v '" + data +
                            "v.npy' -o out.npy --verify --json");
  ASSERT_EQ(result.exit_code, 0) << result.errors << result.out;
  EXPECT_EQ(read_npy(folder_ / "out.npy").shape, (std::vector<std::int64_t>{1, 194, 12, 32}));
}

}  // namespace
}  // namespace hipflash::cli
