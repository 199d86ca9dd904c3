#include "cli/options.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>
#include <sstream>

#include "core/settings.h"

namespace hipflash::cli {
namespace {

// The name of a type; throws CLI::ValidationError.
DType parse_dtype(const std::string& text) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    if (text == to_string(dtype)) return dtype;
  }
  throw CLI::ValidationError("--dtype", "\"" + text + "\" is not f16, bf16 or f32");
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

CLI::Validator finite(const std::string& rule, bool (*holds)(double)) {
  return CLI::Validator(
      [rule, holds](const std::string& text) {
        const std::optional<double> value = parse_whole<double>(text);
        return value && std::isfinite(*value) && std::isfinite(static_cast<float>(*value)) &&
                       holds(*value)
                   ? std::string()
                   : text + " is not " + rule;
      },
      "NUMBER");
}

CLI::Validator whole(std::int64_t low, std::int64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        const std::optional<std::int64_t> value = parse_whole<std::int64_t>(text);
        return value && *value >= low && *value <= high
                   ? std::string()
                   : text + " is not a whole number from " + std::to_string(low) + " to " +
                         std::to_string(high);
      },
      "N");
}

// A file or folder; an empty name is a script's unset variable.
CLI::Validator path_name() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? "the name is empty" : std::string(); },
      "FILE");
}

// Devices that cannot exist are wrong usage; whether one does exist is not known here.
std::string check_device(const std::string& text) {
  try {
    parse_device(text);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string check_regex(const std::string& text) {
  try {
    const std::regex compiled(text);
    return {};
  } catch (const std::regex_error& error) {
    return "not a regular expression: " + std::string(error.what());
  }
}

// "L,R"; throws CLI::ValidationError.
Window parse_window(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos) {
    const auto left = parse_whole<std::int64_t>(std::string_view(text).substr(0, comma));
    const auto right = parse_whole<std::int64_t>(std::string_view(text).substr(comma + 1));
    if (left && right && *left >= -1 && *right >= -1) return {*left, *right};
  }
  throw CLI::ValidationError("--window",
                             text + " is not L,R with whole numbers from -1 (unbounded)");
}

void add_attention(CLI::App* app, AttentionFlags* flags) {
  app->add_flag("--causal", flags->causal, "A query sees no key after its own position");
  app->add_flag("--top-left", flags->top_left,
                "Align causal and window to the first key instead of the last");
  app->add_option_function<std::string>(
         "--window", [flags](const std::string& text) { flags->window = parse_window(text); },
         "Keys seen before and after a query's position, -1: all")
      ->type_name("L,R");
  app->add_option("--softcap", flags->softcap, "score = X tanh(score / X); 0: none")
      ->check(finite("0 or a positive number", [](double x) { return x >= 0; }));
  app->add_option("--scale", flags->scale, "Factor of the scores; default 1/sqrt(head dimension)")
      ->check(finite("a finite number", [](double) { return true; }));
  app->add_flag("--strict-f32", flags->strict_f32,
                "f32 products are never split into products of smaller types");
}

void add_device(CLI::App* app, std::string* device, int* threads) {
  app->add_option("--device", *device,
                  "cpu, hip:N or cuda:N; default HIPFLASH_DEVICE, else the first GPU")
      ->check(CLI::Validator(check_device, "DEVICE"));
  app->add_option("--threads", *threads, "CPU threads; 0: one per available CPU")
      ->check(whole(0, 4096));
}

template <class Flags>
void add_features(CLI::App* app, Flags* flags) {
  add_attention(app, &flags->attention);
  app->add_flag("--alibi", flags->alibi, "With ALiBi slopes");
  app->add_flag("--bias", flags->bias, "With an additive bias");
  app->add_flag("--mask", flags->mask, "With a bool mask");
  app->add_flag("--lse", flags->lse, "With the log-sum-exp as a second output");
}

constexpr const char* kBatchInvariant = "A sequence gives the same bits alone and in any batch";

void add_run(CLI::App& app, RunOptions* o) {
  CLI::App* run = app.add_subcommand("run", "Compute attention on .npy files");
  run->add_option("--q", o->q, "Queries (batch, seq, heads, dim), or without batch")
      ->required()
      ->check(path_name());
  run->add_option("--k", o->k, "Keys")->required()->check(path_name());
  run->add_option("--v", o->v, "Values")->required()->check(path_name());
  run->add_option("-o,--out", o->out, "Where the output goes, as .npy of the inputs' type")
      ->check(path_name());
  run->add_option("--lse", o->lse, "Where the log-sum-exp goes: float32 (batch, heads, seq)")
      ->check(path_name());
  run->add_option("--layout", "bshd or bhsd: the order of the dimensions; default bshd")
      ->check(CLI::IsMember({"bshd", "bhsd"}))
      ->each([o](const std::string& text) { o->bhsd = text == "bhsd"; })
      ->type_name("LAYOUT");
  run->add_option("--dtype", o->dtype, "f16, bf16 or f32; bf16 arrays are stored as uint16")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}));
  add_attention(run, &o->attention);
  run->add_option("--alibi", o->alibi, "ALiBi slopes: float32 (heads) or (batch, heads)")
      ->check(path_name());
  run->add_option(
         "--bias", o->bias,
         "Additive bias, broadcast to (batch, heads, queries, keys): float32 or the inputs' type")
      ->check(path_name());
  run->add_option("--mask", o->mask, "Bool mask, broadcast likewise; false hides a key")
      ->check(path_name());
  const auto array = [run](const char* name, std::string* path, const char* text) {
    run->add_option(name, *path, text)->check(path_name());
  };
  array("--sinks", &o->sinks, "Attention sinks: float32 (heads)");
  array("--cu-q", &o->cu_q, "Offsets of packed sequences in Q: int32 or int64 (sequences + 1)");
  array("--cu-k", &o->cu_k, "Likewise in K and V");
  array("--kv-lengths", &o->kv_lengths, "Keys in use of each sequence: int32 or int64 (sequences)");
  array("--block-table", &o->block_table,
        "K and V are (pages, positions, heads, dim): int32 or int64 (sequences, pages)");
  array("--batch-index", &o->batch_index,
        "Slot of the cache, or row of the table, of each sequence: int32 or int64 (sequences)");
  array("--left-padding", &o->left_padding,
        "Positions before the first key of each sequence: int32 or int64 (sequences)");
  run->add_flag("--batch-invariant", o->batch_invariant, kBatchInvariant);
  add_device(run, &o->device, &o->threads);
  run->add_option("--repeat", o->repeat, "Timed runs; default: what fits into 0.2 s")
      ->check(whole(1, 1000000));
  run->add_flag("--verify", o->verify, "Compare with a float64 reference; exit code 1 if wrong");
  run->add_flag("--json", o->json, "Print one JSON object");
}

void add_explain(CLI::App& app, ExplainOptions* o) {
  CLI::App* explain = app.add_subcommand("explain", "Say which kernel a problem takes and why");
  explain
      ->add_option_function<std::string>(
          "--dtype", [o](const std::string& text) { o->dtype = parse_dtype(text); },
          "f16, bf16 or f32; default f32")
      ->type_name("DTYPE");
  const auto size = [explain](const char* name, auto* value, const char* text) {
    return explain->add_option(name, *value, text)
        ->check(whole(0, std::numeric_limits<std::int32_t>::max()));
  };
  size("--batch", &o->batch, "Sequences; default 1");
  size("--heads", &o->heads, "Query heads")->required();
  size("--heads-kv", &o->heads_kv, "Key/value heads; default as many as query heads");
  size("--seq-q,--seq", &o->seq_q, "Queries")->required();
  size("--seq-k", &o->seq_k, "Keys; default as many as queries");
  size("--head-dim", &o->head_dim, "Head dimension, 1 to 512")->required();
  size("--value-head-dim", &o->value_head_dim, "Of the values; default the head dimension");
  add_features(explain, o);
  const auto flag = [explain](const char* name, bool* value, const char* text) {
    explain->add_flag(name, *value, text);
  };
  flag("--sinks", &o->sinks, "With attention sinks");
  flag("--cu-q", &o->cu_q, "With packed queries: --batch sequences of --seq-q at most");
  flag("--cu-k", &o->cu_k, "Likewise keys");
  flag("--kv-lengths", &o->kv_lengths, "Each sequence says how many keys are in use");
  flag("--batch-index", &o->batch_index, "Each sequence says which slot of the cache is its own");
  flag("--left-padding", &o->left_padding,
       "Each sequence says how many positions precede its keys");
  explain
      ->add_option(
          "--page-size", o->page_size,
          "Keys in pages of so many positions, --seq-k or up to a page more for a sequence")
      ->check(whole(1, std::numeric_limits<std::int32_t>::max()));
  flag("--batch-invariant", &o->batch_invariant, kBatchInvariant);
  add_device(explain, &o->device, &o->threads);
  explain->add_flag("--json", o->json, "Print one JSON object");
}

// Which kernels: what `compile` and `pack create` share.
void add_kernels(CLI::App* app, CompileOptions* o) {
  app->add_option("--arch", o->archs, "Architectures, such as gfx942, sm_90a, cpu-avx2")
      ->delimiter(',');
  app->add_option_function<std::vector<std::string>>(
         "--dtype",
         [o](const std::vector<std::string>& names) {
           o->dtypes.clear();
           for (const std::string& name : names) o->dtypes.push_back(parse_dtype(name));
         },
         "Types; default f16,bf16,f32")
      ->delimiter(',')
      ->type_name("DTYPE");
  app->add_option("--head-dim", o->head_dims, "Head dimensions; default 64,128")
      ->delimiter(',')
      ->check(whole(1, 512));
  app->add_option("--value-head-dim", o->value_head_dim, "Default: the head dimension")
      ->check(whole(1, 512));
  app->add_option("--seq", o->seq, "Sequence length that tile configs are chosen for; default 2048")
      ->check(whole(1, 1 << 28));
  add_features(app, o);
}

void add_compile(CLI::App& app, CompileOptions* o) {
  CLI::App* compile = app.add_subcommand("compile", "Compile kernels ahead of their first use");
  add_kernels(compile, o);
  compile
      ->add_option("--device", o->device,
                   "Without --arch: for this device; default HIPFLASH_DEVICE, else the first GPU")
      ->check(CLI::Validator(check_device, "DEVICE"));
  compile->add_flag("--general,--baseline", o->general,
                    "The general kernels, which serve any problem of a type, instead");
  compile->add_option("--output", o->output, "Folder for the entries instead of the user cache")
      ->check(path_name());
  compile->add_flag("--json", o->json, "Print one JSON object");
}

void add_pack(CLI::App& app, PackOptions* o) {
  CLI::App* pack =
      app.add_subcommand("pack", "Make and use files of kernels for machines without a compiler");
  pack->require_subcommand(1);
  const auto action = [pack, o](const char* name, PackAction value, const char* text) {
    CLI::App* sub = pack->add_subcommand(name, text);
    sub->callback([o, value] { o->action = value; });
    sub->add_flag("--json", o->json, "Print one JSON object");
    return sub;
  };
  const auto files = [o](CLI::App* sub, const char* text, int low, int high) {
    sub->add_option("files", o->files, text)->required()->expected(low, high)->check(path_name());
  };
  const auto output = [o](CLI::App* sub) {
    sub->add_option("-o,--output", o->output, "The pack to write")->required()->check(path_name());
    sub->add_option("--sign", o->sign_key, "Sign it with this secret key of `pack keygen`")
        ->check(path_name());
  };
  const auto workload = [o](CLI::App* sub, const char* text) {
    sub->add_option("--workload", o->workload, text)->check(path_name());
  };

  CLI::App* create =
      action("create", PackAction::create, "Compile kernels, for any architectures, into a pack");
  output(create);
  add_kernels(create, &o->kernels);
  create->add_flag("--general,--baseline", o->kernels.general,
                   "Also general kernels: CPUs: any problem of a type; GPUs: any features at these "
                   "types, head dimensions and alignment");
  workload(create, "The kernels of a workload that HIPFLASH_RECORD wrote");
  create->add_option("--problem", o->problem, "The kernels of one problem or operation, as JSON")
      ->type_name("JSON");
  create->add_option("--compute-units", o->compute_units, "Of the device that --problem is for")
      ->check(whole(1, 1 << 20));
  create->add_flag("--from-cache", o->from_cache, "What the user cache holds");
  create->add_option("--tuned", o->tuned, "Tuning results, instead of those of the user's store")
      ->check(path_name());
  create->add_flag("--no-tuned", o->no_tuned, "No tuning results");
  create->add_option("--jobs", o->jobs, "Compiles at once; default one per processor")
      ->check(whole(1, 4096));
  create->callback([create, o] {
    o->action = PackAction::create;
    for (const char* name : {"--dtype", "--head-dim", "--value-head-dim", "--seq", "--causal",
                             "--top-left", "--window", "--softcap", "--scale", "--alibi", "--bias",
                             "--mask", "--lse", "--strict-f32"}) {
      o->kernels_named = o->kernels_named || create->count(name) > 0;
    }
  });

  files(action("list", PackAction::list, "What is in a pack"), "A pack", 1, 1);
  CLI::App* verify =
      action("verify", PackAction::verify, "Check every byte of packs; exit code 1 if not whole");
  files(verify, "Packs", 1, 1 << 16);
  workload(verify, "Also say which kernels of this workload are in none of them");
  CLI::App* install = action("install", PackAction::install, "Put packs where programs find them");
  files(install, "Packs", 1, 1 << 16);
  install->add_option("--to", o->folder, "Folder; default beside the library, else the user's own")
      ->check(path_name());
  files(action("diff", PackAction::diff, "Compare two packs; exit code 1 if they differ"),
        "Two packs", 2, 2);
  CLI::App* merge = action("merge", PackAction::merge, "Make one pack of several");
  output(merge);
  files(merge, "Packs; where two differ about a kernel, the first counts", 1, 1 << 16);
  files(action("keygen", PackAction::keygen, "Make a key pair for signing: FILE and FILE.pub"),
        "FILE of the secret key", 1, 1);
}

void add_cache(CLI::App& app, CacheOptions* o) {
  CLI::App* cache = app.add_subcommand("cache", "Look at the user cache of compiled kernels");
  cache->require_subcommand(1);
  const auto action = [cache, o](const char* name, CacheAction value, const char* text) {
    CLI::App* sub = cache->add_subcommand(name, text);
    sub->callback([o, value] { o->action = value; });
    sub->add_flag("--json", o->json, "Print one JSON object");
    return sub;
  };
  action("list", CacheAction::list, "Its entries");
  action("verify", CacheAction::verify, "Check every entry and remove the damaged ones");
  action("clear", CacheAction::clear, "Remove every entry");
  action("path", CacheAction::path, "Where it is");
  action("prune", CacheAction::prune, "Remove the least recently used entries")
      ->add_option_function<std::string>(
          "--max",
          [o](const std::string& text) {
            o->max_bytes = parse_size(text);
            if (!o->max_bytes)
              throw CLI::ValidationError("--max", text + " is not a size such as 512M");
          },
          "Bytes that may remain; default HIPFLASH_CACHE_MAX")
      ->type_name("SIZE");
}

void add_bench(CLI::App& app, BenchOptions* o) {
  CLI::App* bench = app.add_subcommand("bench", "Time a table of common shapes on this machine");
  bench->add_option("--filter", o->filter, "Only the shapes whose names match")
      ->check(CLI::Validator(check_regex, "REGEX"));
  bench->add_option("--json", o->json_file, "Write the results to a file")->check(path_name());
  add_device(bench, &o->device, &o->threads);
  bench->add_option("--rounds", o->rounds, "Interleaved repetitions; default 9")
      ->check(whole(1, 10000));
}

void add_inspect(CLI::App& app, InspectOptions* o) {
  CLI::App* inspect = app.add_subcommand(
      "inspect", "Show what a kernel was made from, and its registers, shared memory and spills");
  inspect
      ->add_option("what", o->what,
                   "A file (cache entry, hsaco, cubin, shared object) or a key of `cache list`")
      ->required()
      ->type_name("FILE|KEY");
  inspect->add_flag("--json", o->json, "Print one JSON object");
}

void add_tune(CLI::App& app, TuneCliOptions* o) {
  CLI::App* tune = app.add_subcommand(
      "tune", "Measure which tile configs are the fastest on this machine, and keep the result");
  CLI::Option* quick = tune->add_flag("--quick", o->quick, "Common problems only; the default");
  tune->add_flag("--full", o->full, "More problems, configs and samples")->excludes(quick);
  tune->add_option("--shapes", o->shapes, "Problems to tune for, a workload file")
      ->check(path_name());
  tune->add_option("--budget", o->budget_minutes, "Stop in order after so many minutes")
      ->check(finite("a positive number", [](double x) { return x > 0; }));
  tune->add_flag("--again", o->again, "Measure what is tuned or in quarantine once more");
  tune->add_flag("--check", o->check,
                 "Compare the tuned configs with the defaults, at sizes that were not tuned");
  tune->add_option("--report", o->report,
                   "Write all measurements as an HTML page; alone, it measures nothing")
      ->check(path_name());
  add_device(tune, &o->device, &o->threads);
  tune->add_flag("--json", o->json, "Print one JSON object");
}

// Rules between options.
void check_together(const Options& options) {
  const auto whole = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  if (!options.run.lse.empty() && whole(options.run.lse) == whole(options.run.out)) {
    throw CLI::ValidationError("--lse", "must name another file than --out");
  }
  if (options.command == Command::compile && !options.compile.general &&
      !options.compile.output.empty()) {
    throw CLI::ValidationError("--output", "is only for --general");
  }
  if (!options.compile.device.empty() &&
      (options.compile.general || !options.compile.archs.empty())) {
    throw CLI::ValidationError("--device", "names what --arch or --general names already");
  }
}

}  // namespace

AttentionOptions AttentionFlags::attention_options() const {
  AttentionOptions options;
  options.causal = causal;
  options.alignment = top_left ? MaskAlignment::top_left : MaskAlignment::bottom_right;
  options.window = window;
  options.softcap = softcap;
  options.scale = scale;
  options.strict_f32 = strict_f32;
  return options;
}

void AttentionFlags::apply(Problem* problem) const {
  problem->causal = causal;
  problem->alignment = top_left ? MaskAlignment::top_left : MaskAlignment::bottom_right;
  problem->window = window;
  problem->softcap = softcap;
  if (scale) problem->scale = *scale;
  problem->strict_f32 = strict_f32 && problem->dtype == DType::f32;
}

const char* to_string(Command command) noexcept {
  static constexpr const char* kNames[] = {"run",   "info", "explain", "compile", "cache",
                                           "bench", "tune", "pack",    "inspect"};
  return kNames[static_cast<int>(command)];
}

Parsed parse_options(const std::vector<std::string>& arguments) {
  Options options;
  CLI::App app("Exact attention with kernels that are compiled when first used", "hipflash");
  app.require_subcommand(0, 1);  // that there is one is checked below: so an unknown one is named
  app.set_version_flag("--version", "hipflash " HIPFLASH_VERSION);
  add_run(app, &options.run);
  CLI::App* info = app.add_subcommand("info", "Show devices, compilers and folders");
  info->add_flag("--json", options.info.json, "Print one JSON object");
  add_explain(app, &options.explain);
  add_compile(app, &options.compile);
  add_cache(app, &options.cache);
  add_bench(app, &options.bench);
  add_pack(app, &options.pack);
  add_tune(app, &options.tune);
  add_inspect(app, &options.inspect);

  Parsed parsed;
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    const std::string name = app.get_subcommands().front()->get_name();
    for (const Command command :
         {Command::run, Command::info, Command::explain, Command::compile, Command::cache,
          Command::bench, Command::tune, Command::pack, Command::inspect}) {
      if (name == to_string(command)) options.command = command;
    }
    check_together(options);
    parsed.options = std::move(options);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, errors;
    parsed.exit_code = app.exit(error, out, errors) == 0 ? 0 : 2;
    parsed.text = out.str() + errors.str();
  }
  return parsed;
}

}  // namespace hipflash::cli
