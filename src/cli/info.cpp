#include "api/check.h"
#include "cache/prebuilt.h"
#include "cli/commands.h"
#include "core/fail.h"
#include "jit/code_provider.h"
#include "plan/mask_bounds.h"

namespace hipflash::cli {
namespace {

std::string cache_path_or_reason() {
  try {
    return user_cache::path();
  } catch (const Error& error) {
    return fmt::format("none: {}", error.what());
  }
}

struct PrebuiltPlace {
  std::string path;
  std::string trouble;  // why it is not used; empty when it is
};

// What HIPFLASH_PREBUILT names and what is installed, in the order of the search.
std::vector<PrebuiltPlace> prebuilt_places() {
  std::vector<PrebuiltPlace> places;
  const jit::ProviderOptions options = jit::provider_options_from_settings();
  const auto look_at = [&](const std::string& path) {
    cache::Prebuilt::Sources sources;
    sources.paths = {path};
    sources.trust = options.trust;
    sources.warn = false;  // it is said below, and where a device's context looks for code
    const cache::Prebuilt opened(sources);
    places.push_back({path, opened.refused().empty() ? "" : opened.refused().front().reason});
  };
  for (const std::string& path : options.prebuilt) look_at(path);
  for (const std::string& path : options.installed) look_at(path);
  return places;
}

std::string size_text(std::size_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// As a call has them that brings the offsets, lengths and tables that were named.
void set_sequences(Problem& problem, const ExplainOptions& options) {
  Features& has = problem.features;
  Ragged& r = problem.ragged;
  has.varlen = options.cu_q || options.cu_k;
  has.kv_cache = options.kv_lengths || options.batch_index || options.left_padding;
  has.paged_kv = options.page_size.has_value();
  r.packed_q = options.cu_q;
  r.packed_k = options.cu_k;
  r.lengths = options.kv_lengths;
  r.batch_index = options.batch_index;
  r.left_padding = options.left_padding;
  if (r.packed_q) {
    r.total_q = problem.batch * problem.seq_q;
    problem.q.batch = problem.out.batch = 0;
    problem.lse = {0, 1, r.total_q};
  }
  if (r.packed_k) {
    r.total_k = problem.batch * problem.seq_k;
    problem.k.batch = problem.v.batch = 0;
  }
  if (has.paged_kv) {
    r.page_size = *options.page_size;
    r.pages_per_sequence = problem.seq_k / r.page_size + (problem.seq_k % r.page_size != 0);
    if (r.pages_per_sequence * r.page_size > plan::kMaxSequence) {
      fail(ErrorCode::InvalidArgument,
           "seq_k = {} in whole pages of {} must be at most {} positions", problem.seq_k,
           r.page_size, plan::kMaxSequence);
    }
    r.block_table_stride = r.pages_per_sequence;
    r.pages = problem.batch * r.pages_per_sequence;
    problem.seq_k = r.pages_per_sequence * r.page_size;
    problem.k.batch = r.page_size * problem.k.seq;
    problem.v.batch = r.page_size * problem.v.seq;
  }
  if (has.ragged() && !r.packed_k) r.kv_slots = problem.batch;
}

Problem problem_of(const ExplainOptions& options) {
  Problem problem;
  problem.dtype = options.dtype;
  problem.batch = options.batch;
  problem.heads_q = options.heads;
  problem.heads_kv = options.heads_kv.value_or(options.heads);
  problem.seq_q = options.seq_q;
  problem.seq_k = options.seq_k.value_or(options.seq_q);
  problem.head_dim = options.head_dim;
  problem.value_head_dim = options.value_head_dim.value_or(options.head_dim);
  options.attention.apply(&problem);
  problem.features.alibi = options.alibi;
  problem.features.bias = options.bias;
  problem.features.mask = options.mask;
  problem.features.lse = options.lse;
  problem.features.sinks = options.sinks;
  problem.batch_invariant = options.batch_invariant;
  problem.set_dense_bshd();
  api::check_problem(problem);  // whose sizes are the caller's: those in pages are rounded up
  set_sequences(problem, options);
  if (options.attention.scale) problem.scale = *options.attention.scale;
  // One bias and mask for the whole batch.
  problem.bias = problem.mask = {0, problem.seq_q * problem.seq_k, problem.seq_k, 1};
  return problem;
}

}  // namespace

int show_info(const InfoOptions& options) {
  const std::vector<DeviceInfo> found = devices();
  const std::string cache = cache_path_or_reason();
  const std::vector<PrebuiltPlace> prebuilt = prebuilt_places();
  if (options.json) {
    Json list = Json::array();
    for (const DeviceInfo& device : found) {
      list.push_back({{"id", to_string(device.id)},
                      {"name", device.name},
                      {"arch", device.arch},
                      {"compute_units", device.compute_units},
                      {"memory_bytes", device.memory_bytes},
                      {"compiler", device.compiler},
                      {"notes", device.notes}});
    }
    Json places = Json::array();
    for (const PrebuiltPlace& place : prebuilt) {
      places.push_back({{"path", place.path}, {"trouble", place.trouble}});
    }
    print_json({{"version", HIPFLASH_VERSION},
                {"default_device", to_string(default_device())},
                {"devices", list},
                {"cache", cache},
                {"prebuilt", places}});
    return 0;
  }
  std::string text = "hipflash " HIPFLASH_VERSION "\n";
  for (const DeviceInfo& device : found) {
    const char* const unit = device.id.platform == Platform::cpu ? "threads" : "compute units";
    text += fmt::format("{}  {}\n  arch      {}, {} {}", to_string(device.id), device.name,
                        device.arch, device.compute_units, unit);
    if (device.memory_bytes > 0) text += ", " + size_text(device.memory_bytes);
    text += fmt::format("\n  compiler  {}\n", device.compiler.empty() ? "none" : device.compiler);
    for (const std::string& note : device.notes) text += fmt::format("  note      {}\n", note);
  }
  text +=
      fmt::format("default device  {}\nuser cache      {}\n", to_string(default_device()), cache);
  for (const PrebuiltPlace& place : prebuilt) {
    text += fmt::format("prebuilt        {}{}{}\n", place.path,
                        place.trouble.empty() ? "" : "  NOT USED: ", place.trouble);
  }
  print(text);
  return 0;
}

int explain(const ExplainOptions& options) {
  Context ctx(device_or_default(options.device), context_options(options.threads));
  const Explanation why = ctx.explain(problem_of(options));
  if (options.json) {
    print_json({{"device", why.device},
                {"arch", why.arch},
                {"kernel", why.family},
                {"config", why.config},
                {"reason", why.reason},
                {"key", why.key},
                {"tier", why.tier},
                {"work_items", why.work_items},
                {"splits", why.splits},
                {"workspace_bytes", why.workspace_bytes}});
  } else {
    std::string text = why.text();
    if (text.empty() || text.back() != '\n') text += '\n';
    print(text);
  }
  return 0;
}

}  // namespace hipflash::cli
