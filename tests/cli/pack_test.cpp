// `hipflash pack` as a user runs it, and what a machine without a compiler does with packs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "cache/pack_file.h"
#include "hipflash/attention.h"
#include "hipflash/pack.h"
#include "hipflash/prebuilt.h"
#include "hipflash/workload.h"
#include "pack_testing.h"

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// The smallest kernels of one architecture: AVX2 where it is one, since portable code takes longer
// to compile.
std::string small_arch() {
  const std::vector<std::string> archs = cpu_architectures();
  return "--arch " + archs[archs.size() > 1 ? 1 : 0] + " --dtype f32 --head-dim 16 ";
}

TEST_F(PackCommand, CreateIsReproducibleAndListable) {
  const Result first = good("pack create -o a.hfpack --json " + small_arch() + "--causal");
  EXPECT_EQ(first.errors, "");  // no progress in a pipe
  const json made = json::parse(first.out);
  ASSERT_GE(made["kernels"].size(), 2u);  // forward, and single queries that split their keys
  EXPECT_EQ(made["signer"], nullptr);
  // Another cache: everything is compiled again.
  good("pack create -o b.hfpack " + small_arch() + "--causal", "HIPFLASH_CACHE_DIR=fresh");
  EXPECT_EQ(text_of(folder_ / "a.hfpack"), text_of(folder_ / "b.hfpack"));
  EXPECT_EQ(json::parse(good("pack list a.hfpack --json").out), made);
  EXPECT_THAT(good("pack list a.hfpack").out, HasSubstr("f32 d16"));
  EXPECT_EQ(run("pack diff a.hfpack b.hfpack").exit_code, 0);
}

TEST_F(PackCommand, DiffAndMerge) {
  good("pack create -o a.hfpack " + small_arch());
  good("pack create -o b.hfpack " + small_arch() + "--causal");
  const Result differing = run("pack diff a.hfpack b.hfpack");
  EXPECT_EQ(differing.exit_code, 1);
  EXPECT_THAT(differing.out, HasSubstr("+ "));
  good("pack merge -o ab.hfpack a.hfpack b.hfpack");
  good("pack merge -o ba.hfpack b.hfpack a.hfpack");
  EXPECT_EQ(text_of(folder_ / "ab.hfpack"), text_of(folder_ / "ba.hfpack"));
  EXPECT_THAT(run("pack diff ab.hfpack a.hfpack").out, Not(HasSubstr("+ ")));
  good("pack verify ab.hfpack");
}

TEST_F(PackCommand, SignaturesAndInstalling) {
  good("pack keygen key");
  EXPECT_EQ(run("pack keygen key").exit_code, 1);  // never replaces a key
  good("pack create -o signed.hfpack --sign key " + small_arch());
  good("pack create -o plain.hfpack " + small_arch());
  good("pack verify signed.hfpack plain.hfpack");
  good("pack verify signed.hfpack", "HIPFLASH_TRUSTED_KEYS=key.pub");
  const Result refused = run("pack verify plain.hfpack", "HIPFLASH_TRUSTED_KEYS=key.pub");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("not signed"));
  EXPECT_EQ(run("pack install plain.hfpack --to in", "HIPFLASH_TRUSTED_KEYS=key.pub").exit_code, 1);
  EXPECT_FALSE(fs::exists(folder_ / "in"));
  const json installed = json::parse(good("pack install signed.hfpack --to in --json").out);
  EXPECT_EQ(installed["installed"][0], "in/signed.hfpack");
  EXPECT_EQ(text_of(folder_ / "in/signed.hfpack"), text_of(folder_ / "signed.hfpack"));
  EXPECT_EQ(run("pack verify plain.hfpack", "HIPFLASH_TRUSTED_KEYS=nonsense").exit_code, 2);
}

TEST_F(PackCommand, DamagedFilesAndWrongUsage) {
  std::ofstream(folder_ / "bad.hfpack") << "HFLPACK";
  for (const char* verb : {"list", "verify", "install --to in"}) {
    const Result result = run("pack " + std::string(verb) + " bad.hfpack");
    EXPECT_EQ(result.exit_code, 1) << verb;
    EXPECT_THAT(result.errors, HasSubstr("bad.hfpack")) << verb;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(run("pack verify missing.hfpack").exit_code, 1);
  EXPECT_EQ(run("pack").exit_code, 2);
  EXPECT_EQ(run("pack create").exit_code, 2);
  EXPECT_EQ(run("pack create -o a.hfpack --arch cpu-abacus").exit_code, 2);
  EXPECT_EQ(run("pack create -o a.hfpack --problem nonsense").exit_code, 2);
  EXPECT_EQ(run("pack create -o a.hfpack --workload missing").exit_code, 1);
  EXPECT_EQ(run("pack create -o a.hfpack --sign missing " + small_arch()).exit_code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "a.hfpack"));
  good("pack create -o a.hfpack " + small_arch());
  EXPECT_EQ(run("pack create -o no/such/a.hfpack " + small_arch()).exit_code, 1);
}

// Killed at any moment, a pack is there whole or not at all, and nothing lies beside it.
TEST_F(PackCommand, KilledAtAnyMomentLeavesNothingHalfWritten) {
  const std::string line = "pack create -o out/a.hfpack " + small_arch();
  fs::create_directory(folder_ / "out");
  good(line);
  const std::string whole = text_of(folder_ / "out/a.hfpack");
  std::mt19937 random(7);
  int killed = 0;
  for (int i = 0; i < 40; ++i) {
    if (i % 2 == 0) fs::remove(folder_ / "out/a.hfpack");
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      const std::string command = "exec >/dev/null 2>&1; " + shell_line(settings("exec env"), line);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::usleep(random() % 60000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    for (const auto& at : fs::directory_iterator(folder_ / "out")) {
      if (at.path().filename() == "a.hfpack") {
        EXPECT_EQ(text_of(at.path()), whole) << i;
      } else {
        // The name a whole file has for a moment when it replaces another.
        EXPECT_EQ(at.path().filename().string().rfind(".tmp-", 0), 0u) << at.path();
        EXPECT_EQ(text_of(at.path()), whole) << i;
      }
    }
  }
  EXPECT_GT(killed, 0);
  good(line);
}

// What is in a pack is found without asking a compiler anything, whether or not one may be used.
TEST_F(PackCommand, TheFirstCallFromAPackAsksNoCompiler) {
  good("pack create -o app.hfpack --dtype f32 --head-dim 16");
  std::ofstream(folder_ / "cxx") << "#!/bin/sh\necho \"$@\" >>'" << folder_.string()
                                 << "/asked'\nexec c++ \"$@\"\n";
  ASSERT_EQ(::chmod((folder_ / "cxx").c_str(), 0700), 0);
  const auto asked = [&] { return fs::exists(folder_ / "asked"); };
  const std::string compiler = "HIPFLASH_CXX='" + (folder_ / "cxx").string() + "' ";
  const std::string line = "explain --heads 4 --seq 64 --head-dim 16 --json";
  const std::string both = "HIPFLASH_PREBUILT=app.hfpack ";
  for (const char* mode : {"auto", "never"}) {
    // The user's cache is empty, or has what others compiled.
    for (const char* cache : {"/empty", ""}) {
      std::string settings = compiler + "HIPFLASH_COMPILE=" + mode + " ";
      if (*cache != '\0') {
        settings += "HIPFLASH_CACHE_DIR='" + (folder_ / "empty").string() + "' ";
      }
      const json found = json::parse(good(line, settings + both).out);
      EXPECT_EQ(found["tier"], "prebuilt") << mode;
      EXPECT_FALSE(asked()) << mode << ": " << text_of(folder_ / "asked");
    }
  }
  // The key is that of the pack's kernel.
  const std::string key =
      json::parse(good(line, compiler + both).out)["key"].get<std::string>().substr(0, 16);
  EXPECT_THAT(good("pack list app.hfpack").out, HasSubstr(key));
  EXPECT_FALSE(asked());

  // What was compiled by a compiler that must be asked is found where no pack has it, too.
  const std::string own = compiler + "HIPFLASH_CACHE_DIR='" + (folder_ / "own").string() + "' ";
  good("compile --dtype f32 --head-dim 16", own);
  EXPECT_TRUE(asked());
  fs::remove(folder_ / "asked");
  EXPECT_EQ(json::parse(good(line, own + "HIPFLASH_COMPILE=never").out)["tier"], "disk");
  good(line, own + both);
  EXPECT_FALSE(asked());
}

// Without compiling, a pack takes what others compiled, and says who did.
TEST_F(PackCommand, KernelsAreNamedByTheCompilerThatMadeThem) {
  const auto compiler = [&](const std::string& version) {
    std::ofstream(folder_ / "cxx") << "#!/bin/sh\ncase \"$1\" in --version) echo '" << version
                                   << "'; exit;; esac\nexec c++ \"$@\"\n";
    ASSERT_EQ(::chmod((folder_ / "cxx").c_str(), 0700), 0);
  };
  const std::string own = "HIPFLASH_CXX='" + (folder_ / "cxx").string() + "' HIPFLASH_CACHE_DIR='" +
                          (folder_ / "own").string() + "' ";
  compiler("the first");
  const json first = json::parse(good("pack create -o a.hfpack --json " + small_arch(), own).out);
  compiler("the second");
  const json second = json::parse(
      good("pack create -o b.hfpack --json " + small_arch(), own + "HIPFLASH_COMPILE=never ").out);
  ASSERT_FALSE(second["kernels"].empty());
  EXPECT_THAT(second["kernels"][0]["compiler"].get<std::string>(), HasSubstr("the first"));
  EXPECT_EQ(second["kernels"], first["kernels"]);
}

// Nobody waits for a compiler that hangs where nothing is compiled.
TEST_F(PackCommand, NoCompilerIsAskedWhereNoneIsNeeded) {
  good("pack create -o app.hfpack --dtype f32 --head-dim 16");
  std::ofstream(folder_ / "wanted.jsonl") << to_json_line({"", 0, small_problem(24)}) << "\n";
  std::ofstream(folder_ / "cxx") << "#!/bin/sh\ntouch '" << folder_.string()
                                 << "/asked'\nexec c++ \"$@\"\n";
  ASSERT_EQ(::chmod((folder_ / "cxx").c_str(), 0700), 0);
  const std::string compiler = "HIPFLASH_CXX='" + (folder_ / "cxx").string() +
                               "' HIPFLASH_CACHE_DIR='" + (folder_ / "empty").string() + "' ";
  const Result lacking = run("pack verify app.hfpack --workload wanted.jsonl", compiler);
  EXPECT_EQ(lacking.exit_code, 1);
  EXPECT_THAT(lacking.out + lacking.errors, HasSubstr("f32 d24"));

  const std::string never = compiler + "HIPFLASH_COMPILE=never HIPFLASH_PREBUILT=app.hfpack ";
  const std::string data = HIPFLASH_SOURCE_DIR "/examples/minilm/";
  for (const std::string& line : {std::string("info"), std::string("info --json")}) {
    EXPECT_THAT(good(line, never).out, HasSubstr("compiling is off"));
  }
  run("run --q " + data + "q.npy --k " + data + "k.npy --v " + data + "v.npy", never);
  EXPECT_FALSE(fs::exists(folder_ / "asked"));
}

// ---- what a program does with packs ------------------------------------------------------------

TEST_F(PackInContext, ByPathByMemoryByFolderAndByEnvironment) {
  {
    const WithCompiler here;
    make_pack();
  }
  const std::string bytes = text_of(folder_ / "app.hfpack");
  ContextOptions memory, folder, none;
  memory.use_disk_cache = folder.use_disk_cache = none.use_disk_cache = false;
  memory.packs = {{bytes.data(), bytes.size()}};
  folder.prebuilt = {folder_.string()};
  for (const ContextOptions& options : {deployed(), memory, folder}) {
    Context ctx(DeviceId{}, options);
    const Plan plan = ctx.plan(small_problem());
    EXPECT_EQ(plan.tier(), Tier::prebuilt);
    EXPECT_THAT(plan.explanation().reason, Not(HasSubstr("general")));
    solve(plan);
    EXPECT_EQ(ctx.cache_stats().compiles, 0u);
  }
  const Env prebuilt("HIPFLASH_PREBUILT", (folder_ / "app.hfpack").c_str());
  Context ctx(DeviceId{}, none);
  EXPECT_THAT(ctx.plan(small_problem()).explanation().reason, Not(HasSubstr("general")));
}

TEST_F(PackInContext, ADamagedOrUntrustedPackOfTheOptionsIsAnError) {
  {
    const WithCompiler here;
    make_pack();
  }
  std::string bytes = text_of(folder_ / "app.hfpack");
  bytes[60] ^= 1;
  ContextOptions memory;
  memory.packs = {{bytes.data(), bytes.size()}};
  EXPECT_THROW(Context(DeviceId{}, memory), Error);
  memory.packs = {{nullptr, 5}};
  EXPECT_THROW(Context(DeviceId{}, memory), Error);
  const std::string key = std::string(64, 'a');
  const Env trusted("HIPFLASH_TRUSTED_KEYS", key.c_str());
  try {
    Context ctx(DeviceId{}, deployed());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::CacheUnusable);
    EXPECT_THAT(error.what(), HasSubstr("not signed"));
  }
}

// The error names what is missing, and the command it gives does add it.
TEST_F(PackInContext, WhatIsMissingIsNamedWithTheCommandThatAddsIt) {
  const Env never("HIPFLASH_COMPILE", "never");
  std::vector<Problem> problems = {small_problem(24), small_problem(24), small_problem(24)};
  problems[1].causal = true;
  problems[1].features.lse = true;
  problems[2].q.seq += 1;  // no longer aligned: beyond what options can say
  problems[2].aligned = false;
  for (const Problem& problem : problems) {
    ContextOptions options = deployed();
    options.prebuilt.clear();
    Context ctx(DeviceId{}, options);
    ctx.seal();  // the general kernels of the build must not serve
    std::string said;
    try {
      ctx.plan(problem);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::NotSupported);
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr("f32 d24"));
    const std::size_t begin = said.find("`hipflash pack create"), end = said.find('`', begin + 1);
    ASSERT_NE(end, std::string::npos) << said;
    const std::string command = said.substr(begin + 10, end - begin - 10);
    {
      const WithCompiler here;
      const Env compile("HIPFLASH_COMPILE", nullptr);
      good(command);
    }
    options.prebuilt = {(folder_ / "more.hfpack").string()};
    Context again(DeviceId{}, options);
    again.seal();
    EXPECT_EQ(again.plan(problem).tier(), Tier::prebuilt) << command;
  }
}

// A compiler that is there and of no use: the general kernel serves, with one warning.
TEST_F(PackInContext, ABrokenCompilerIsWarnedOfOnceAndTheGeneralKernelServes) {
  {
    const WithCompiler here;
    good("pack create -o app.hfpack --general");
  }
  for (const char* body : {"case \"$1\" in --version|-dumpmachine) exec c++ \"$1\";; esac\n"
                           "echo 'cannot execute as: No such file' >&2; exit 1\n",
                           "echo 'this is no compiler' >&2; exit 1\n"}) {
    const fs::path compiler = folder_ / "broken";
    std::ofstream(compiler) << "#!/bin/sh\nprintf x >> '" << (folder_ / "asked").string() << "'\n"
                            << body;
    ::chmod(compiler.c_str(), 0700);
    fs::remove(folder_ / "asked");
    const Env cxx("HIPFLASH_CXX", compiler.c_str());
    testing::internal::CaptureStderr();
    ContextOptions options = deployed();
    Context ctx(DeviceId{}, options);
    for (const std::int64_t head_dim : {16, 24, 40}) {
      const Plan plan = ctx.plan(small_problem(head_dim));
      EXPECT_EQ(plan.tier(), head_dim == 16 ? Tier::prebuilt : plan.tier());
      EXPECT_THAT(plan.explanation().reason, HasSubstr("general"));
      solve(plan);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("does not work"), said.rfind("does not work")) << said;
    EXPECT_THAT(said, HasSubstr("does not work"));
    // What it is (twice), the kernel, the empty function; not again for each problem.
    EXPECT_LE(fs::file_size(folder_ / "asked"), 4u);
  }
}

TEST_F(PackInContext, GeneralServesWhileTheSpecializedKernelIsCompiled) {
  const WithCompiler here;
  good("pack create -o app.hfpack --general");
  // A compiler that waits for a sign.
  const fs::path compiler = folder_ / "slow";
  std::ofstream(compiler) << "#!/bin/sh\ncase \"$1\" in --version|-dumpmachine) exec c++ \"$1\";; "
                             "esac\nwhile [ ! -e '"
                          << (folder_ / "go").string()
                          << "' ]; do sleep 0.05; done\nexec c++ \"$@\"\n";
  ::chmod(compiler.c_str(), 0700);
  const Env cxx("HIPFLASH_CXX", compiler.c_str());
  ContextOptions options = deployed();
  options.while_compiling = WhileCompiling::general;
  Context ctx(DeviceId{}, options);
  const Plan first = ctx.plan(small_problem(40));
  EXPECT_THAT(first.explanation().reason, HasSubstr("while the specialized one is compiled"));
  const std::vector<float> early = solve(first);
  EXPECT_THAT(ctx.plan(small_problem(40)).explanation().reason, HasSubstr("while"));
  std::ofstream(folder_ / "go") << "";
  bool specialized = false;
  for (int i = 0; i < 600 && !specialized; ++i) {
    specialized =
        ctx.plan(small_problem(40)).tier() == Tier::compiled ||
        ctx.plan(small_problem(40)).explanation().reason.find("general") == std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_TRUE(specialized);
  expect_close(early, solve(ctx.plan(small_problem(40))));
  EXPECT_EQ(solve(first), early);  // a Plan that is held stays what it is
}

TEST_F(PackInContext, SealedContextsDoNotFallBack) {
  {
    const WithCompiler here;
    good("pack create -o app.hfpack --general");
  }
  ContextOptions options = deployed();
  options.while_compiling = WhileCompiling::general;
  Context ctx(DeviceId{}, options);
  ctx.seal();
  EXPECT_THROW(ctx.plan(small_problem(40)), Error);
}

TEST_F(PackInContext, RecordedByManyProcessesThenPackedAndFoundWhole) {
  const WithCompiler here;
  const std::string file = (folder_ / "recorded.jsonl").string();
  std::ofstream(file) << "{\"arch\":\"cpu-av";  // of a process that was killed
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setenv("HIPFLASH_RECORD", file.c_str(), 1);
      try {
        Context ctx(DeviceId{}, {});
        for (const std::int64_t head_dim : {16, 24}) ctx.plan(small_problem(head_dim));
        ctx.plan(small_problem(16));
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  const std::vector<WorkloadItem> items = read_workload(file);
  EXPECT_EQ(items.size(), 2u);
  const std::string text = text_of(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;  // each once, and the torn one
  std::ofstream(file, std::ios::app) << "{\"arch\":\"cpu-av";

  good("pack create -o all.hfpack --workload recorded.jsonl");
  good("pack create -o some.hfpack --dtype f32 --head-dim 16");
  good("pack verify all.hfpack --workload recorded.jsonl");
  const Result lacking = run("pack verify some.hfpack --workload recorded.jsonl --json");
  EXPECT_EQ(lacking.exit_code, 1);
  const json missing = json::parse(lacking.out)["missing"];
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0]["label"].get<std::string>(), HasSubstr("f32 d24"));
  good("pack verify some.hfpack all.hfpack --workload recorded.jsonl");
}

TEST_F(PackCommand, AProblemWithoutAnArchitectureIsForThisCpu) {
  const std::string merge =
      R"('{"operation":{"name":"merge_partials","dtype":"f16","head_dim":64}}')";
  const std::string attention = R"('{"dtype":"f32","heads_q":1,"seq_q":8,"head_dim":24}')";
  for (const std::string& problem : {merge, attention, attention + " --compute-units 4"}) {
    const Result result = run("pack create --no-tuned -o one.hfpack --problem " + problem);
    ASSERT_EQ(result.exit_code, 0) << problem << "\n" << result.errors;
    const pack::Contents contents = pack::list((folder_ / "one.hfpack").string());
    ASSERT_EQ(contents.kernels.size(), 1u) << problem;
    EXPECT_THAT(contents.kernels[0].arch, HasSubstr("cpu")) << problem;
  }
}

TEST_F(PackInContext, FromCacheTakesWhatRanAndIsCurrent) {
  const WithCompiler here;
  ContextOptions options;
  options.cache_dir = (folder_ / "cache").string();
  std::string key;
  {
    Context ctx(DeviceId{}, options);
    key = ctx.plan(small_problem(24)).explanation().key;
  }
  good("pack create -o app.hfpack --from-cache", "HIPFLASH_CACHE_DIR=cache");
  const pack::Contents contents = pack::verify((folder_ / "app.hfpack").string());
  ASSERT_EQ(contents.kernels.size(), 1u);
  EXPECT_EQ(contents.kernels[0].key, key);
  const Result none =
      run("pack create -o none.hfpack --from-cache --arch gfx942", "HIPFLASH_CACHE_DIR=cache");
  EXPECT_EQ(none.exit_code, 2) << none.errors;
  EXPECT_FALSE(fs::exists(folder_ / "none.hfpack"));
}

}  // namespace
}  // namespace hipflash::cli
