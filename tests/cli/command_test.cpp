// The command's other ways to be called, and what holds for all of them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command_inputs.h"

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The kernel that a call takes, by what the call brings.
TEST_F(CommandTest, ExplainOfRaggedCallsAndSinks) {
  const std::string line = "explain --batch 3 --heads 4 --seq-q 2 --seq-k 100 --head-dim 64 ";
  const auto reason = [&](const std::string& more) {
    const Result result = run(line + more + " --json");
    EXPECT_EQ(result.exit_code, 0) << more << ": " << result.errors;
    return result.exit_code == 0 ? json::parse(result.out)["reason"].get<std::string>() : "";
  };
  EXPECT_EQ(reason("").find("ragged"), std::string::npos) << reason("");
  for (const char* more : {"--cu-q --cu-k", "--cu-q --kv-lengths", "--kv-lengths", "--batch-index",
                           "--kv-lengths --left-padding", "--page-size 16 --kv-lengths"}) {
    EXPECT_NE(reason(more), reason("")) << more;
  }
  EXPECT_NE(reason("--page-size 16"), reason("--kv-lengths"));
  EXPECT_NE(reason("--sinks"), reason(""));
  EXPECT_NE(reason("--kv-lengths --batch-invariant"), "");
  expect_failure(line + "--cu-k --page-size 16", 2, "pages are not packed");
  expect_failure(line + "--cu-k --batch-index", 2, "packed keys have no slots");

  // It is the kernel that such a call compiles.
  write("packed.npy", {10, 2, 16}, 1);
  const std::vector<std::int64_t> cu = {0, 6, 6, 10};
  write_npy(folder_ / "cu.npy", NpyType::i64, {4}, std::as_bytes(std::span(cu)));
  const Result ran =
      run("run --q packed.npy --k packed.npy --v packed.npy --cu-q cu.npy --cu-k cu.npy --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  const json why = json::parse(
      run("explain --batch 3 --heads 2 --seq 6 --head-dim 16 --cu-q --cu-k --json").out);
  EXPECT_EQ(why["key"], json::parse(ran.out)["key"]);
  EXPECT_EQ(why["tier"], "disk");
}

TEST_F(CommandTest, WrongUsageIsTwo) {
  expect_failure("", 2, "subcommand");
  expect_failure("run --q q.npy", 2, "required");
  expect_failure(run_line("--softcap -3"), 2, "--softcap");
  expect_failure(run_line("--device hip:x"), 2, "hip:x");
  expect_failure("explain --heads 8 --seq 64 --head-dim 600", 2, "600");
  // Errors name the keys that were asked for, not those of whole pages.
  const std::string paged = "explain --heads 8 --seq 64 --head-dim 64 --page-size 16 --seq-k ";
  expect_failure(paged + "600000001", 2, "seq_k = 600000001 ");
  expect_failure(paged + "536870911", 2, "seq_k = 536870911 in whole pages of 16 ");
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
  // A budget is for measuring.
  const std::string budget = "tune --budget 0.0001 --report x.html --json";
  EXPECT_TRUE(json::parse(run(budget, store).out).contains("tuning"));
  const Result check = run("tune --shapes shapes.jsonl --check --budget 0.0001 --json", store);
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_EQ(json::parse(check.out)["check_complete"], false) << check.out;
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
  // One warning, of the context that looks for code.
  const std::string warned = run("info", missing).errors;
  EXPECT_EQ(warned.find("/no/such/folder"), warned.rfind("/no/such/folder")) << warned;
  EXPECT_NE(warned.find("/no/such/folder"), std::string::npos);
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

TEST_F(CommandTest, CompileIsForTheDeviceThatIsAskedFor) {
  const std::string compile = "compile --dtype f32 --head-dim 64";
  for (const char* asked : {"HIPFLASH_DEVICE=hip:7", "HIPFLASH_DEVICE=cuda:7"}) {
    const Result result = run(compile, asked);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_NE(result.errors.find("NoDevice"), std::string::npos) << result.errors;
  }
  expect_failure(compile + " --device hip:7", 1, "NoDevice");
  const Result here = run(compile + " --device cpu", "HIPFLASH_DEVICE=hip:7");
  EXPECT_EQ(here.exit_code, 0) << here.errors;
}

TEST_F(CommandTest, CompilingAheadIsNoCompileDuringACall) {
  const Result result = run("compile --dtype f32 --head-dim 64 --json", "HIPFLASH_STRICT=1");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(json::parse(result.out)["kernels"][0]["tier"], "compiled");
}

TEST_F(CommandTest, FilesThatAreNotThereFailInEveryCommand) {
  expect_failure("tune --shapes no.jsonl", 1, "no.jsonl: cannot read");
  expect_failure("pack create -o a.hfpack --workload no.jsonl", 1, "no.jsonl: cannot read");
  expect_failure("inspect no-such-key", 1, "no-such-key");
}

TEST_F(CommandTest, ExplainTakesZerosAtTheirWord) {
  const std::string line = "explain --heads 4 --seq 8 --head-dim 64 ";
  expect_failure(line + "--heads-kv 0", 2, "heads_kv = 0");
  expect_failure(line + "--value-head-dim 0", 2, "value_head_dim = 0");
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
  EXPECT_EQ(json::parse(damaged.out)["left"].size(), 0u);
  const fs::path folder =
      folder_ / "cache" / (list["entries"][0]["key"].get<std::string>() + ".hfentry");
  fs::create_directory(folder);  // an entry's name, and nothing that can be removed as one
  const Result left = run("cache verify");
  EXPECT_EQ(left.exit_code, 1);
  EXPECT_EQ(left.out.find("removed"), std::string::npos) << left.out;
  EXPECT_NE(left.out.find("cannot remove"), std::string::npos) << left.out;
  EXPECT_NE(left.out.find("0 entries are whole, 1 were damaged"), std::string::npos) << left.out;
  EXPECT_TRUE(fs::exists(folder));
  fs::remove(folder);
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

}  // namespace
}  // namespace hipflash::cli
