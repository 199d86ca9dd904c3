// The command line of `hipflash`, parsed into plain structs. Knows no device and no file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hipflash/attention.h"

namespace hipflash::cli {

// What `run`, `explain` and `compile` say about the attention itself.
struct AttentionFlags {
  bool causal = false;
  bool top_left = false;
  Window window;
  float softcap = 0.0f;
  std::optional<float> scale;
  bool strict_f32 = false;

  AttentionOptions attention_options() const;
  // The same in a Problem. A scale that was not given leaves the Problem's at 0.
  void apply(Problem* problem) const;
};

struct RunOptions {
  std::string q, k, v, out, lse, alibi, bias, mask, sinks;  // paths; empty: absent
  std::string cu_q, cu_k, kv_lengths, block_table;          // likewise
  std::string batch_index, left_padding;                    // likewise
  bool batch_invariant = false;
  std::string dtype;  // empty: what the files say
  bool bhsd = false;  // layout; else bshd
  AttentionFlags attention;
  std::string device;  // empty: default_device()
  int threads = 0;
  int repeat = 0;  // 0: as many as fit into a fraction of a second
  bool verify = false;
  bool json = false;
};

struct InfoOptions {
  bool json = false;
};

// A problem in numbers.
struct ExplainOptions {
  DType dtype = DType::f32;
  std::int64_t batch = 1, heads = 0, seq_q = 0, head_dim = 0;
  std::optional<std::int64_t> heads_kv, seq_k;  // empty: as of the queries
  std::optional<std::int64_t> value_head_dim;   // empty: head_dim
  AttentionFlags attention;
  bool alibi = false, bias = false, mask = false, lse = false, sinks = false;
  // What the call brings of packed sequences and caches.
  bool cu_q = false, cu_k = false, kv_lengths = false, batch_index = false, left_padding = false;
  std::optional<std::int64_t> page_size;  // keys in pages
  bool batch_invariant = false;
  std::string device;
  int threads = 0;
  bool json = false;
};

struct CompileOptions {
  std::vector<std::string> archs;       // empty: that of `device`
  std::string device;                   // `compile` alone; empty: default_device()
  std::vector<DType> dtypes;            // empty: f16, bf16 and f32
  std::vector<std::int64_t> head_dims;  // empty: 64 and 128
  std::int64_t value_head_dim = 0;
  std::int64_t seq = 2048;
  AttentionFlags attention;
  bool alibi = false, bias = false, mask = false, lse = false;
  bool general = false;  // the general kernels instead
  std::string output;    // folder for the general kernels; empty: the user cache
  bool json = false;
};

enum class CacheAction { list, verify, prune, clear, path };

struct CacheOptions {
  CacheAction action = CacheAction::list;
  std::optional<std::uint64_t> max_bytes;  // prune; empty: HIPFLASH_CACHE_MAX or its default
  bool json = false;
};

enum class PackAction { create, list, verify, install, diff, merge, keygen };

struct PackOptions {
  PackAction action = PackAction::list;
  std::vector<std::string> files;  // what the action is about; for create and merge, see `output`
  std::string output;              // create, merge
  CompileOptions kernels;          // create: what `compile` has
  bool kernels_named = false;      // create: at least one of these options was given
  std::string workload;            // create, verify: a file; empty: none
  std::string problem;             // create: the JSON form of one problem
  int compute_units = 0;           // create, with `problem`
  bool from_cache = false;         // create
  std::vector<std::string> tuned;  // create: files and folders
  bool no_tuned = false;           // create
  std::string sign_key;            // create, merge
  std::string folder;              // install; empty: the usual ones
  int jobs = 0;                    // create: compiles at once
  bool json = false;
};

struct BenchOptions {
  std::string filter;     // regular expression on the names
  std::string json_file;  // empty: none
  std::string device;
  int threads = 0;
  int rounds = 9;
};

struct InspectOptions {
  std::string what;  // a file or a key
  bool json = false;
};

struct TuneCliOptions {
  bool quick = false, full = false;  // neither: quick
  bool again = false, check = false;
  double budget_minutes = 0;
  std::string shapes;  // workload file
  std::string report;  // HTML file; without quick or full nothing is measured
  std::string device;
  int threads = 0;
  bool json = false;
};

enum class Command { run, info, explain, compile, cache, bench, tune, pack, inspect };
const char* to_string(Command command) noexcept;

struct Options {
  Command command = Command::run;
  RunOptions run;
  InfoOptions info;
  ExplainOptions explain;
  CompileOptions compile;
  CacheOptions cache;
  BenchOptions bench;
  PackOptions pack;
  TuneCliOptions tune;
  InspectOptions inspect;
};

struct Parsed {
  std::optional<Options> options;  // empty: print `text` and leave with `exit_code`
  int exit_code = 0;               // 0: help or version was asked for; 2: wrong usage
  std::string text;
};

// `arguments` without the program's name. Never throws on any arguments.
Parsed parse_options(const std::vector<std::string>& arguments);

}  // namespace hipflash::cli
