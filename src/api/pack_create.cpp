// pack::create(): from a wish list to specs, to code, to a file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "api/check.h"
#include "api/context_impl.h"
#include "api/operation_kernels.h"
#include "api/pack_io.h"
#include "api/planning.h"
#include "autotune/store.h"
#include "autotune/tuning_table.h"
#include "cache/store.h"
#include "core/fail.h"
#include "hipflash/pack.h"
#include "jit/source.h"
#include "plan/cpu_plan.h"
#include "platform/cpu/isa.h"

namespace hipflash::pack {
namespace {

namespace fs = std::filesystem;

autotune::Fingerprint fingerprint_for(const std::string& arch, int compute_units) {
  autotune::Fingerprint device;
  device.arch = arch;
  device.platform = arch.starts_with("gfx") ? "hip" : arch.starts_with("sm_") ? "cuda" : "cpu";
  device.compute_units = compute_units;
  return device;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(ErrorCode::InvalidArgument, "tuning result \"{}\" cannot be read", path.string());
  return text;
}

// What is wanted, gathered from all options.
class WishList {
 public:
  explicit WishList(const CreateOptions& options) : options_(options) {
    if (options.tuned) gather_documents();
    gather_specs();
    drop_unrelated_documents();
  }

  const std::vector<jit::Spec>& specs() const { return specs_; }
  const std::map<std::string, std::string>& documents() const { return documents_; }

 private:
  void add(jit::Spec spec) {
    for (const jit::Spec& known : specs_) {
      if (known == spec) return;
    }
    specs_.push_back(std::move(spec));
  }

  void add(const Problem& problem, const std::string& arch, int compute_units) {
    api::check_problem(problem);
    if (api::is_empty(problem)) return;
    const plan::TileSource* const tuned = options_.tuned ? &table_for(arch) : nullptr;
    for (jit::Spec& spec : api::specs_for(problem, arch, compute_units, tuned)) {
      add(std::move(spec));
    }
    if (!options_.general || !api::is_gpu(arch)) return;
    for (jit::Spec& spec : api::general_gpu_specs(problem, arch)) add(std::move(spec));
  }

  void add(const WorkloadItem& item, const std::string& arch, int compute_units) {
    if (item.is_operation()) {
      add(api::operation_spec(item.operation, arch));
    } else {
      add(item.problem, arch, compute_units);
    }
  }

  // A pack is made for all cards of an architecture, whatever this machine is.
  const autotune::TuningTable& table_for(const std::string& arch) {
    auto& table = tables_[arch];
    if (!table) {
      table = std::make_unique<autotune::TuningTable>(fingerprint_for(arch, 0));
      std::vector<std::string> texts;
      for (const auto& [name, text] : documents_) texts.push_back(text);
      autotune::load_table(*table, texts);
    }
    return *table;
  }

  void gather_specs() {
    std::vector<std::string> archs = options_.archs;
    if (archs.empty() && (!options_.problems.empty() || options_.general)) {
      archs.push_back(api::this_cpu());
    }
    for (const std::string& arch : archs) {
      for (const Problem& problem : options_.problems) add(problem, arch, 0);
      if (options_.general && !api::is_gpu(arch)) add_general(arch);
    }
    for (const WorkloadItem& item : options_.workload) {
      if (options_.archs.empty()) {
        if (item.arch.empty()) {
          fail(ErrorCode::InvalidArgument,
               "workload: an item names no \"arch\"; say for which architectures it is");
        }
        add(item, item.arch, item.compute_units);
      }
      for (const std::string& arch : options_.archs) {
        const bool same = item.arch.empty() || item.arch.substr(0, item.arch.find(':')) == arch;
        add(item, arch, same ? item.compute_units : 0);
      }
    }
  }

  void add_general(const std::string& arch) {
    const CpuIsa isa = api::isa_of(arch);
    for (const ElementType element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
      if (platform::isa_for(isa, element) == isa) add(plan::general_cpu_spec(isa, element));
    }
  }

  void gather_documents() {
    std::vector<fs::path> files;
    for (const std::string& name : options_.tuned_files) {
      if (fs::is_directory(name)) {
        add_folder(name, &files);
      } else {
        files.emplace_back(name);
      }
    }
    if (options_.tuned_files.empty() && !autotune::tuning_is_off()) {
      add_folder(autotune::default_store_folder(), &files);
    }
    for (const fs::path& file : files) {
      documents_.emplace(file.filename().string(), text_of(file));
    }
  }

  static void add_folder(const fs::path& folder, std::vector<fs::path>* files) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".json" && at->is_regular_file(error)) {
        files->push_back(at->path());
      }
    }
  }

  // Results of other architectures would only make the pack larger.
  void drop_unrelated_documents() {
    std::set<std::string> stems;
    for (const jit::Spec& spec : specs_) {
      stems.insert(autotune::architecture_stem(fingerprint_for(spec.arch, 0)) + "-");
    }
    if (options_.from_cache || !options_.tuned_files.empty()) return;
    std::erase_if(documents_, [&](const auto& document) {
      return std::none_of(stems.begin(), stems.end(), [&](const std::string& stem) {
        return document.first.starts_with(stem);
      });
    });
  }

  const CreateOptions& options_;
  std::vector<jit::Spec> specs_;
  std::map<std::string, std::string> documents_;
  std::map<std::string, std::unique_ptr<autotune::TuningTable>> tables_;
};

cache::Bytes to_bytes(const std::vector<std::byte>& code) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(code.data());
  return {begin, begin + code.size()};
}

// Whether an entry is of this version's kernel text: another's would never be asked for.
bool is_current(const cache::KeyInputs& inputs) {
  if (inputs.abi != static_cast<std::uint32_t>(jit::kLauncherAbi) ||
      jit::find_family(inputs.family) == nullptr) {
    return false;
  }
  jit::Spec spec;
  spec.family = inputs.family;
  spec.arch = inputs.arch;
  spec.facts = inputs.prologue;
  return cache::hash_hex(jit::source_text(spec)) == inputs.source_hash;
}

void add_cached(const std::string& folder, const std::vector<std::string>& archs,
                std::vector<cache::Entry>* entries) {
  cache::Store store(cache::open_directory(folder));
  if (!store.readable()) {
    fail(ErrorCode::CacheUnusable, "the user cache {} cannot be read: {}", folder,
         store.degraded_reason());
  }
  for (const cache::Listed& listed : store.list()) {
    if (!listed.header) continue;
    const cache::KeyInputs& inputs = listed.header->info.inputs;
    const bool wanted =
        archs.empty() || std::any_of(archs.begin(), archs.end(), [&](const auto& a) {
          return inputs.arch == a || inputs.arch.starts_with(a + ":");
        });
    if (!wanted || !is_current(inputs)) continue;
    if (auto entry = store.find(listed.key)) entries->push_back(std::move(*entry));
  }
}

}  // namespace

Contents create(const std::string& path, const CreateOptions& options) {
  const std::optional<cache::SecretKey> secret = read_signing_key(options.sign_key);
  require_writable_pack(path);
  for (const std::string& arch : options.archs) {
    if (!api::is_gpu(arch)) (void)api::isa_of(arch);  // refuses names that are none
  }
  const WishList wishes(options);
  const std::vector<jit::Spec>& specs = wishes.specs();
  if (specs.empty() && !options.from_cache) {
    fail(ErrorCode::InvalidArgument,
         "a pack of nothing: name problems, a workload, the general kernels or the user cache");
  }
  jit::ProviderOptions provider_options = jit::provider_options_from_settings();
  provider_options.forget_prebuilt();
  provider_options.strict = false;
  provider_options.threads = options.threads;
  jit::CodeProvider provider(std::move(provider_options));

  std::vector<std::shared_future<jit::CodeObject>> compiles;
  compiles.reserve(specs.size());
  for (const jit::Spec& spec : specs) compiles.push_back(provider.get_async(spec));
  cache::PackContent content;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string what = fmt::format("{} {}", specs[i].arch, specs[i].label);
    if (options.progress) options.progress(i, specs.size(), what);
    const jit::CodeObject& code = compiles[i].get();
    content.entries.push_back({{code.inputs, specs[i].label}, to_bytes(code.bytes)});
  }
  if (options.progress) options.progress(specs.size(), specs.size(), "writing");
  if (options.from_cache) {
    add_cached(provider.options().cache_dir, options.archs, &content.entries);
  }
  if (content.entries.empty()) {
    fail(ErrorCode::InvalidArgument,
         "a pack of nothing: no problem needs a kernel and the user cache {} holds none{}",
         provider.options().cache_dir, options.archs.empty() ? "" : " for these architectures");
  }
  content.documents = wishes.documents();
  return write_pack(path, std::move(content), secret);
}

}  // namespace hipflash::pack
