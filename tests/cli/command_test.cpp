// The command as a user runs it: a process with arguments, files, an exit code and output.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/npy.h"
#include "command_testing.h"
#include "verify/convert.h"
#include "verify/reference.h"

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A folder with a space in its name, an empty cache in it, and small random inputs.
class CommandTest : public CommandFolder {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CommandFolder::SetUp());
    write("q.npy", {2, 5, 4, 16}, 1);
    write("k.npy", {2, 7, 2, 16}, 2);
    write("v.npy", {2, 7, 2, 24}, 3);
  }

  std::vector<float> write(const std::string& name, const std::vector<std::int64_t>& shape,
                           unsigned seed) const {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(generator);
    write_npy(folder_ / name, NpyType::f32, shape, std::as_bytes(std::span(values)));
    return values;
  }

  void write_bytes(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // `line` is for the shell, which starts in the test's folder.
  Result run(const std::string& line, const std::string& environment = {}) const {
    return run_in_folder(
        "HIPFLASH_CACHE_DIR=cache HIPFLASH_PREBUILT= HIPFLASH_DEVICE=cpu " + environment, line);
  }

  void expect_failure(const std::string& line, int exit_code, const std::string& words) const {
    const Result result = run(line);
    EXPECT_EQ(result.exit_code, exit_code) << line << "\n" << result.errors;
    EXPECT_NE(result.errors.find(words), std::string::npos) << line << "\n" << result.errors;
    EXPECT_EQ(result.out, "") << line;
  }
};

constexpr const char* kInputs = "--q q.npy --k k.npy --v v.npy ";

std::string run_line(const std::string& more) {
  return std::string("run ") + kInputs + more;
}

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
  Problem problem;
  problem.batch = 2;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.seq_q = 5;
  problem.seq_k = 7;
  problem.head_dim = 16;
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

TEST_F(CommandTest, WrongUsageIsTwo) {
  expect_failure("", 2, "subcommand");
  expect_failure("run --q q.npy", 2, "required");
  expect_failure(run_line("--softcap -3"), 2, "--softcap");
  expect_failure(run_line("--device hip:x"), 2, "hip:x");
  expect_failure("explain --heads 8 --seq 64 --head-dim 600", 2, "600");
  EXPECT_EQ(run("--help").exit_code, 0);
  EXPECT_EQ(run("--version").exit_code, 0);
}

TEST_F(CommandTest, TuneMeasuresOnceThenPlansAndReportsFollow) {
  write_bytes("shapes.jsonl", R"({"problem":{"dtype":"f32","heads_q":2,"seq_q":64,"head_dim":32}})"
                              "\n");
  const std::string store = "HIPFLASH_TUNING=tuning";
  const Result first = run("tune --shapes shapes.jsonl --report tuning.html --json", store);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const json one = json::parse(first.out)["tuning"];
  EXPECT_EQ(one["tuned"], 1);
  EXPECT_EQ(one["quarantined"], 0);
  EXPECT_EQ(one["complete"], true);
  const std::string page = text_of(folder_ / "tuning.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);  // nothing to load

  const json two = json::parse(run("tune --shapes shapes.jsonl --json", store).out)["tuning"];
  EXPECT_EQ(two["tuned"], 0);
  EXPECT_EQ(two["already"], 1);
  const std::string explain = "explain --heads 2 --seq 64 --head-dim 32";
  EXPECT_NE(run(explain, store).out.find("tuned here"), std::string::npos);
  EXPECT_NE(run(explain, "HIPFLASH_TUNING=elsewhere").out.find("not tuned"), std::string::npos);
  EXPECT_EQ(run(explain, "HIPFLASH_TUNING=off").out.find("tuned here"), std::string::npos);
  EXPECT_EQ(run("tune --shapes shapes.jsonl", "HIPFLASH_TUNING=off").exit_code, 2);
  EXPECT_EQ(run("tune --report x.html", "HIPFLASH_TUNING=elsewhere").exit_code, 1);
}

TEST_F(CommandTest, WhatIsNotThereSaysSo) {
  const Result gpu = run(run_line("--device hip:7"));
  EXPECT_EQ(gpu.exit_code, 1);
  EXPECT_NE(gpu.errors.find("hip"), std::string::npos) << gpu.errors;
}

TEST_F(CommandTest, InspectShowsEntriesAndCodeObjects) {
  ASSERT_EQ(run(run_line("-o out.npy --causal")).exit_code, 0);
  const std::string key = json::parse(run("cache list --json").out)["entries"][0]["key"];
  for (const std::string& name : {key, key.substr(0, 8), "cache/" + key + ".hfentry"}) {
    const Result result = run("inspect '" + name + "' --json");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const json entry = json::parse(result.out);
    EXPECT_EQ(entry["key"], key);
    EXPECT_EQ(entry["kernel"], "cpu/attention_forward.cpp");
    EXPECT_EQ(entry["format"], "shared object");
    EXPECT_EQ(std::string(entry["arch"]).rfind("cpu-", 0), 0u);
    EXPECT_NE(std::string(entry["label"]).find("causal"), std::string::npos);
    EXPECT_FALSE(std::string(entry["compiler"]).empty());
    EXPECT_GT(entry["text_bytes"], 0);
    EXPECT_EQ(entry["kernels"][0]["name"], "attention_forward");
    EXPECT_GT(entry["kernels"][0]["text_bytes"], 0);
    const auto& constants = entry["constants"];
    EXPECT_NE(std::find(constants.begin(), constants.end(), "head_dim = 16"), constants.end());
  }
  EXPECT_NE(run("inspect " + key).out.find("window_right = true"), std::string::npos);

  const std::string fixtures = "'" HIPFLASH_SOURCE_DIR "/tests/fuzz/code_facts.corpus/";
  const json hsaco = json::parse(run("inspect " + fixtures + "gfx90a' --json").out);
  EXPECT_EQ(hsaco["arch"], "gfx90a");
  EXPECT_FALSE(hsaco.contains("key"));
  EXPECT_EQ(hsaco["kernels"][2]["name"], "spills");
  EXPECT_EQ(hsaco["kernels"][2]["spilled_vector"], 34);
  EXPECT_EQ(hsaco["kernels"][2]["local_accesses"], nullptr);
  const Result cubin = run("inspect " + fixtures + "sm_80'");
  EXPECT_NE(cubin.out.find("64: 8 warps per scheduler"), std::string::npos) << cubin.out;
  EXPECT_NE(cubin.out.find("408 bytes per lane"), std::string::npos) << cubin.out;
}

TEST_F(CommandTest, InspectSaysWhatItCannotShow) {
  expect_failure("inspect", 2, "required");
  expect_failure("inspect abc", 1, "neither a file nor a key");
  expect_failure("inspect 0123456789", 1, "neither a file nor the key of an entry");
  expect_failure("inspect .", 1, "not a file");
  expect_failure("inspect q.npy", 1, "not an ELF file");
  write_bytes("damaged.hfentry", "HFLENTRY and nothing else");
  expect_failure("inspect damaged.hfentry", 1, "damaged entry");
}

TEST_F(CommandTest, InfoAndExplain) {
  const json info = json::parse(run("info --json").out);
  EXPECT_EQ(info["devices"].back()["id"], "cpu");
  EXPECT_EQ(info["default_device"], "cpu");
  EXPECT_NE(run("info").out.find("arch"), std::string::npos);
  const std::string missing = "HIPFLASH_PREBUILT=/no/such/folder";
  EXPECT_NE(run("info", missing).out.find("/no/such/folder  NOT USED: No such file"),
            std::string::npos);
  const json place = json::parse(run("info --json", missing).out)["prebuilt"][0];
  EXPECT_EQ(place["path"], "/no/such/folder");
  EXPECT_NE(place["trouble"], "");

  const std::string line = "explain --heads 4 --heads-kv 2 --seq 128 --head-dim 64 --causal";
  const json before = json::parse(run(line + " --json").out);
  EXPECT_FALSE(before["kernel"].get<std::string>().empty());
  EXPECT_GT(before["work_items"], 0);
  EXPECT_EQ(before["tier"].get<std::string>().rfind("none", 0), 0u) << before;
  EXPECT_NE(run(line).out.find(before["kernel"].get<std::string>()), std::string::npos);
}

TEST_F(CommandTest, WithoutACompilerTheBuildsKernelsServe) {
  if (!fs::exists(HIPFLASH_BINARY_DIR "/lib/hipflash/prebuilt")) {
    GTEST_SKIP() << "built without HIPFLASH_BASELINE_KERNELS";
  }
  const std::string none = "HIPFLASH_CXX=/no/such/compiler";
  const Result result = run(run_line("-o out.npy --causal --verify --json"), none);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(json::parse(result.out)["tier"], "prebuilt");
  EXPECT_NE(run("info", none).out.find("prebuilt kernels serve"), std::string::npos);
}

TEST_F(CommandTest, CompileAheadThenFindOnDisk) {
  const std::string compile = "compile --dtype f32 --head-dim 64 --causal --json";
  const Result first = run(compile);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const json one = json::parse(first.out);
  ASSERT_EQ(one["kernels"].size(), 1u);
  EXPECT_EQ(one["kernels"][0]["tier"], "compiled");
  EXPECT_EQ(json::parse(run(compile).out)["kernels"][0]["tier"], "disk");
  const json why =
      json::parse(run("explain --heads 32 --seq 2048 --head-dim 64 --causal --json").out);
  EXPECT_EQ(why["tier"], "disk");
  EXPECT_EQ(why["key"], one["kernels"][0]["key"]);
  expect_failure("compile --arch cpu-abacus", 2, "cpu-abacus");
}

TEST_F(CommandTest, CacheCommands) {
  ASSERT_EQ(run(run_line("")).exit_code, 0);
  EXPECT_NE(run("cache path").out.find("cache\n"), std::string::npos);
  const json list = json::parse(run("cache list --json").out);
  ASSERT_EQ(list["entries"].size(), 1u);
  EXPECT_EQ(list["entries"][0]["label"].get<std::string>().rfind("f32 d16", 0), 0u) << list;
  EXPECT_GT(list["bytes"], 0);
  EXPECT_NE(run("cache list").out.find("1 entries"), std::string::npos);
  EXPECT_EQ(run("cache verify").exit_code, 0);

  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    const std::string key = list["entries"][0]["key"];
    if (entry.path().filename().string().find(key) == std::string::npos) continue;
    std::string bytes = text_of(entry.path());
    bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  const Result damaged = run("cache verify --json");
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_EQ(json::parse(damaged.out)["removed"].size(), 1u);
  ASSERT_EQ(run(run_line("")).exit_code, 0);
  EXPECT_EQ(json::parse(run("cache prune --max 1G --json").out)["removed"], 0);
  EXPECT_EQ(json::parse(run("cache prune --max 0 --json").out)["removed"], 1);
  EXPECT_EQ(json::parse(run("cache clear --json").out)["removed"], 0);
}

TEST_F(CommandTest, Bench) {
  const Result result = run("bench --filter minilm --rounds 3 --json bench.json");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json bench = json::parse(text_of(folder_ / "bench.json"));
  ASSERT_EQ(bench["results"].size(), 1u);
  EXPECT_GT(bench["results"][0]["gflops"], 0);
  EXPECT_LE(bench["results"][0]["low_ms"], bench["results"][0]["median_ms"]);
  expect_failure("bench --filter nosuchshape", 2, "nosuchshape");
}

TEST_F(CommandTest, AFullStandardOutputIsAFailure) {
  const std::string command = "cd '" + folder_.string() + "' && HIPFLASH_CACHE_DIR=cache '" +
                              HIPFLASH_BINARY_DIR "/bin/hipflash' info >/dev/full 2>stderr.txt";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_NE(text_of(folder_ / "stderr.txt").find("standard output"), std::string::npos);
}

TEST_F(CommandTest, AClosedStandardOutputIsAFailure) {
  // With a cold cache many files are opened before anything is printed; none may take the text.
  const std::string data = HIPFLASH_SOURCE_DIR "/examples/minilm/";
  const std::string command = "cd '" + folder_.string() + "' && HIPFLASH_CACHE_DIR=cold '" +
                              HIPFLASH_BINARY_DIR "/bin/hipflash' run --q '" + data +
                              "q.npy' --k '" + data + "k.npy' --v '" + data +
                              "v.npy' >&- 2>stderr.txt";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_NE(text_of(folder_ / "stderr.txt").find("standard output"), std::string::npos);
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
