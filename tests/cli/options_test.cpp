#include "cli/options.h"

#include <gtest/gtest.h>

#include <sstream>

namespace hipflash::cli {
namespace {

Parsed parse(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  return parse_options(arguments);
}

TEST(Options, Run) {
  const Parsed parsed = parse(
      "run --q q.npy --k k.npy --v v.npy -o out.npy --causal --window -1,7 --softcap 30 --scale "
      "-0.5 "
      "--layout bhsd --dtype bf16 --alibi a.npy --lse l.npy --device hip:1 --verify --json");
  ASSERT_TRUE(parsed.options) << parsed.text;
  const RunOptions& run = parsed.options->run;
  EXPECT_EQ(parsed.options->command, Command::run);
  EXPECT_EQ(run.q, "q.npy");
  EXPECT_EQ(run.out, "out.npy");
  EXPECT_TRUE(run.bhsd && run.verify && run.json && run.attention.causal);
  EXPECT_EQ(run.attention.window, (Window{-1, 7}));
  EXPECT_EQ(run.attention.softcap, 30.0f);
  EXPECT_EQ(run.attention.scale, -0.5f);
  EXPECT_EQ(run.dtype, "bf16");
  EXPECT_EQ(run.lse, "l.npy");
  EXPECT_EQ(run.device, "hip:1");
}

TEST(Options, Lists) {
  const Parsed parsed =
      parse("compile --arch cpu-avx2,cpu-avx512 --dtype f16,bf16 --head-dim 64,96");
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->compile.archs, (std::vector<std::string>{"cpu-avx2", "cpu-avx512"}));
  EXPECT_EQ(parsed.options->compile.dtypes, (std::vector<DType>{DType::f16, DType::bf16}));
  EXPECT_EQ(parsed.options->compile.head_dims, (std::vector<std::int64_t>{64, 96}));
}

TEST(Options, TypesAreNamesAndNothingElse) {
  for (const char* wrong : {"0", "1", "2", "f64", "F16"}) {
    for (const std::string command :
         {"explain --heads 1 --seq 8 --head-dim 8 --dtype ", "compile --dtype ",
          "compile --dtype f16,", "pack create -o x --dtype "}) {
      const Parsed parsed = parse(command + wrong);
      EXPECT_EQ(parsed.exit_code, 2) << command << wrong;
      EXPECT_NE(parsed.text.find("is not f16, bf16 or f32"), std::string::npos) << parsed.text;
    }
  }
}

TEST(Options, ZeroIsNotAbsent) {
  const Parsed parsed =
      parse("explain --heads 4 --seq 8 --head-dim 64 --seq-k 0 --heads-kv 0 --value-head-dim 0");
  ASSERT_TRUE(parsed.options) << parsed.text;
  const ExplainOptions& zero = parsed.options->explain;
  EXPECT_EQ(zero.seq_k, 0);
  EXPECT_EQ(zero.heads_kv, 0);
  EXPECT_EQ(zero.value_head_dim, 0);
  const ExplainOptions absent = parse("explain --heads 4 --seq 8 --head-dim 64").options->explain;
  EXPECT_FALSE(absent.seq_k || absent.heads_kv || absent.value_head_dim);
}

TEST(Options, WhatACallBringsOfSequences) {
  const Parsed parsed = parse(
      "explain --heads 4 --seq 8 --head-dim 64 --sinks --cu-q --kv-lengths --batch-index "
      "--left-padding --page-size 16 --batch-invariant");
  ASSERT_TRUE(parsed.options) << parsed.text;
  const ExplainOptions& o = parsed.options->explain;
  EXPECT_TRUE(o.sinks && o.cu_q && !o.cu_k && o.kv_lengths && o.batch_index && o.left_padding &&
              o.batch_invariant);
  EXPECT_EQ(o.page_size, 16);
  EXPECT_EQ(parse("explain --heads 4 --seq 8 --head-dim 64 --page-size 0").exit_code, 2);
  const Parsed files =
      parse("run --q q --k k --v v --batch-index b.npy --left-padding l.npy --batch-invariant");
  ASSERT_TRUE(files.options) << files.text;
  EXPECT_EQ(files.options->run.batch_index, "b.npy");
  EXPECT_EQ(files.options->run.left_padding, "l.npy");
  EXPECT_TRUE(files.options->run.batch_invariant);
}

TEST(Options, CompileIsForADeviceOrForArchitectures) {
  const Parsed parsed = parse("compile --device hip:1 --dtype f16");
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->compile.device, "hip:1");
  EXPECT_EQ(parse("compile --device hip:1 --arch gfx942").exit_code, 2);
  EXPECT_EQ(parse("compile --device gpu").exit_code, 2);
}

TEST(Options, Cache) {
  const Parsed parsed = parse("cache prune --max 512M --json");
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->cache.action, CacheAction::prune);
  EXPECT_EQ(parsed.options->cache.max_bytes, 512u << 20);
  EXPECT_TRUE(parsed.options->cache.json);
}

TEST(Options, Tune) {
  const Parsed parsed = parse("tune --full --budget 2.5 --device cpu --report r.html --again");
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->command, Command::tune);
  EXPECT_TRUE(parsed.options->tune.full);
  EXPECT_TRUE(parsed.options->tune.again);
  EXPECT_EQ(parsed.options->tune.budget_minutes, 2.5);
  EXPECT_EQ(parsed.options->tune.report, "r.html");
  for (const char* wrong : {"tune --quick --full", "tune --budget 0", "tune --budget x",
                            "tune --device gpu", "tune now"}) {
    EXPECT_EQ(parse(wrong).exit_code, 2) << wrong;
  }
}

TEST(Options, Inspect) {
  const Parsed parsed = parse("inspect abc --json");
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->command, Command::inspect);
  EXPECT_EQ(parsed.options->inspect.what, "abc");
  EXPECT_TRUE(parsed.options->inspect.json);
  EXPECT_FALSE(parse("inspect").options);
}

TEST(Options, HelpAndVersionAreNotErrors) {
  for (const char* line : {"--help", "run --help", "--version", "cache --help"}) {
    const Parsed parsed = parse(line);
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exit_code, 0) << line;
    EXPECT_FALSE(parsed.text.empty());
  }
}

TEST(Options, WrongUsageNamesTheOption) {
  const struct {
    const char *line, *words;
  } cases[] = {
      {"", "subcommand"},
      {"fly", "fly"},
      {"run --q a --k b", "--v"},
      {"run --q a --k b --v c --window 3", "--window"},
      {"run --q a --k b --v c --window 3,-2", "--window"},
      {"run --q a --k b --v c --window 3,4,5", "--window"},
      {"run --q a --k b --v c --softcap -1", "--softcap"},
      {"run --q a --k b --v c --softcap nan", "--softcap"},
      {"run --q a --k b --v c --scale inf", "--scale"},
      {"run --q a --k b --v c --scale 1e60", "--scale"},
      {"run --q a --k b --v c --dtype f64", "--dtype"},
      {"run --q a --k b --v c --layout sbhd", "--layout"},
      {"run --q a --k b --v c --device tpu", "tpu"},
      {"run --q a --k b --v c --threads -1", "--threads"},
      {"run --q a --k b --v c --causall", "--causall"},
      {"run --q a --k b --v c --out o --lse o", "--lse"},
      {"explain --heads 8 --seq 64", "--head-dim"},
      {"explain --heads 8 --seq 99999999999999999999 --head-dim 64", "--seq"},
      {"compile --head-dim 0", "--head-dim"},
      {"compile --output x", "--output"},
      {"cache", "subcommand"},
      {"cache prune --max 12Q", "--max"},
      {"bench --filter (", "regular expression"},
      {"bench --rounds 0", "--rounds"},
  };
  for (const auto& c : cases) {
    const Parsed parsed = parse(c.line);
    EXPECT_FALSE(parsed.options) << c.line;
    EXPECT_EQ(parsed.exit_code, 2) << c.line;
    EXPECT_NE(parsed.text.find(c.words), std::string::npos) << c.line << "\n" << parsed.text;
  }
}

TEST(Options, EmptyNamesAreRefused) {
  const std::vector<std::string> run = {"run", "--q", "q", "--k", "k", "--v", "v"};
  for (const char* option : {"--q", "-o", "--out", "--lse", "--alibi", "--bias", "--mask"}) {
    std::vector<std::string> arguments = run;
    if (std::string(option) == "--q") arguments = {"run", "--k", "k", "--v", "v"};
    arguments.insert(arguments.end(), {option, ""});
    const Parsed parsed = parse_options(arguments);
    EXPECT_EQ(parsed.exit_code, 2) << option;
    EXPECT_NE(parsed.text.find("empty"), std::string::npos) << option << "\n" << parsed.text;
  }
  EXPECT_EQ(parse_options({"bench", "--json", ""}).exit_code, 2);
  EXPECT_EQ(parse_options({"compile", "--general", "--output", ""}).exit_code, 2);
}

TEST(Options, GeneralKernelsHaveTwoNames) {
  for (const char* name : {"--general", "--baseline"}) {
    for (const char* command : {"compile", "pack create -o x"}) {
      const Parsed parsed = parse(std::string(command) + " " + name);
      ASSERT_TRUE(parsed.options) << parsed.text;
      const Options& options = *parsed.options;
      EXPECT_TRUE(options.compile.general || options.pack.kernels.general) << command << name;
    }
  }
}

TEST(Options, SoftcapZeroIsNone) {
  const Parsed parsed = parse("run --q q --k k --v v --softcap 0");
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->run.attention.softcap, 0.0f);
}

TEST(Options, SizesAreThoseOfSettings) {
  const auto most = [](const std::string& text) {
    const Parsed parsed = parse_options({"cache", "prune", "--max", text});
    return parsed.options ? parsed.options->cache.max_bytes : std::nullopt;
  };
  EXPECT_EQ(most("0"), 0u);
  EXPECT_EQ(most("1000"), 1000u);
  EXPECT_EQ(most("2K"), 2048u);
  EXPECT_EQ(most("512m"), std::uint64_t{512} << 20);
  EXPECT_EQ(most("3G"), std::uint64_t{3} << 30);
  for (const char* text : {"", "M", "-1", "1.5G", "1GB", "99999999999T", " 1", "1 "}) {
    EXPECT_FALSE(most(text)) << text;
  }
}

}  // namespace
}  // namespace hipflash::cli
