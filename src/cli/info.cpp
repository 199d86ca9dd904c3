#include "cache/prebuilt.h"
#include "cli/commands.h"
#include "core/fail.h"
#include "jit/code_provider.h"

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

Problem problem_of(const ExplainOptions& options) {
  Problem problem;
  problem.dtype = options.dtype;
  problem.batch = options.batch;
  problem.heads_q = options.heads;
  problem.heads_kv = options.heads_kv > 0 ? options.heads_kv : options.heads;
  problem.seq_q = options.seq_q;
  problem.seq_k = options.seq_k > 0 ? options.seq_k : options.seq_q;
  problem.head_dim = options.head_dim;
  problem.value_head_dim = options.value_head_dim > 0 ? options.value_head_dim : options.head_dim;
  options.attention.apply(&problem);
  problem.features.alibi = options.alibi;
  problem.features.bias = options.bias;
  problem.features.mask = options.mask;
  problem.features.lse = options.lse;
  problem.set_dense_bshd();
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
