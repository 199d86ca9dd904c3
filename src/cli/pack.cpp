#include "hipflash/pack.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/planning.h"
#include "api/problem_json.h"
#include "cli/commands.h"
#include "cli/npy.h"
#include "core/fail.h"
#include "hipflash/prebuilt.h"

namespace hipflash::cli {
namespace {

Json json_of(const pack::Contents& contents, const std::string& path) {
  Json kernels = Json::array();
  for (const pack::Kernel& kernel : contents.kernels) {
    kernels.push_back({{"key", kernel.key},
                       {"kernel", kernel.family},
                       {"arch", kernel.arch},
                       {"label", kernel.label},
                       {"compiler", kernel.compiler},
                       {"code_bytes", kernel.code_bytes},
                       {"stored_bytes", kernel.stored_bytes}});
  }
  Json json = {{"path", path}, {"bytes", contents.file_bytes}, {"signer", nullptr}};
  if (!contents.signer.empty()) json["signer"] = contents.signer;
  json["kernels"] = kernels;
  json["tuned"] = contents.tuned;
  return json;
}

std::string summary(const pack::Contents& contents, const std::string& path) {
  return fmt::format("{} kernels, {} tuning results, {} bytes, {} in {}\n", contents.kernels.size(),
                     contents.tuned.size(), contents.file_bytes,
                     contents.signer.empty() ? "not signed" : "signed by " + contents.signer, path);
}

void report(const pack::Contents& contents, const std::string& path, bool json) {
  if (json) {
    print_json(json_of(contents, path));
  } else {
    print(summary(contents, path));
  }
}

int create(const PackOptions& o) {
  pack::CreateOptions options;
  options.archs = o.kernels.archs;
  if (!o.workload.empty()) {
    require_readable(o.workload);
    options.workload = read_workload(o.workload);
  }
  if (!o.problem.empty()) {
    const auto json = nlohmann::json::parse(o.problem, nullptr, /*allow_exceptions=*/false);
    WorkloadItem item;
    const bool operation = json.is_object() && json.contains("operation");
    if (operation) {
      item = workload_item_from_json(o.problem);
    } else {
      item.problem = api::problem_from_json(json);
    }
    if (o.compute_units > 0) item.compute_units = o.compute_units;
    // For the architectures of --arch, else for the one it names, else for this machine's CPU.
    if (options.archs.empty() && item.arch.empty()) item.arch = api::this_cpu();
    options.workload.push_back(item);
  }
  options.general = o.kernels.general;
  options.from_cache = o.from_cache;
  // With nothing else to go by, the usual kernels are made, as by `compile`.
  const bool general_of_cpu =
      o.kernels.general && std::none_of(options.archs.begin(), options.archs.end(), api::is_gpu);
  const bool nothing_else =
      o.workload.empty() && o.problem.empty() && !o.from_cache && !general_of_cpu;
  if (o.kernels_named || nothing_else) {
    const std::string arch = options.archs.size() == 1 ? options.archs.front() : "";
    for (const DType dtype : dtypes_of(o.kernels, arch)) {
      for (const std::int64_t head_dim : head_dims_of(o.kernels)) {
        for (const Problem& problem :
             api::usual_problems(kernel_request(o.kernels, dtype, head_dim))) {
          options.problems.push_back(problem);
        }
      }
    }
  }
  options.tuned = !o.no_tuned;
  options.tuned_files = o.tuned;
  options.sign_key = o.sign_key;
  options.threads = static_cast<unsigned>(o.jobs);
  Progress progress;
  options.progress = [&](std::size_t done, std::size_t total, const std::string& what) {
    progress.show(fmt::format("[{}/{}] {}", done, total, what));
  };
  const pack::Contents contents = pack::create(o.output, options);
  progress.show("");
  report(contents, o.output, o.json);
  return 0;
}

int list(const PackOptions& o) {
  const std::string& path = o.files.front();
  const pack::Contents contents = pack::list(path);
  if (o.json) {
    print_json(json_of(contents, path));
    return 0;
  }
  std::string text;
  for (const pack::Kernel& kernel : contents.kernels) {
    text += fmt::format("{:.16}  {:>9}  {}  {}  {}\n", kernel.key, kernel.stored_bytes, kernel.arch,
                        kernel.family, kernel.label);
  }
  for (const std::string& name : contents.tuned) text += fmt::format("tuned  {}\n", name);
  print(text + summary(contents, path));
  return 0;
}

// The workload, with items for each of the packs' architectures in place of one that names none.
std::vector<WorkloadItem> workload_for(const PackOptions& o) {
  std::set<std::string> archs;
  for (const std::string& path : o.files) {
    for (const pack::Kernel& kernel : pack::list(path).kernels) archs.insert(kernel.arch);
  }
  std::vector<WorkloadItem> workload;
  for (WorkloadItem& item : read_workload(o.workload)) {
    if (!item.arch.empty()) {
      workload.push_back(std::move(item));
      continue;
    }
    for (const std::string& arch : archs) {
      item.arch = arch;
      workload.push_back(item);
    }
  }
  return workload;
}

// A kernel that any of the packs has is not missing.
std::vector<pack::Missing> missing_in_all(const PackOptions& o) {
  require_readable(o.workload);
  const std::vector<WorkloadItem> workload = workload_for(o);
  std::vector<pack::Missing> lacking = pack::missing(o.files.front(), workload);
  for (std::size_t i = 1; i < o.files.size(); ++i) {
    std::map<std::string, bool> here;
    for (const auto& one : pack::missing(o.files[i], workload)) here[one.arch + one.label] = true;
    std::erase_if(lacking, [&](const auto& one) { return !here[one.arch + one.label]; });
  }
  return lacking;
}

int verify(const PackOptions& o) {
  Json packs = Json::array(), lacks = Json::array();
  std::string text;
  for (const std::string& path : o.files) {
    const pack::Contents contents = pack::verify(path);
    packs.push_back({{"path", path},
                     {"kernels", contents.kernels.size()},
                     {"signer", contents.signer.empty() ? Json(nullptr) : Json(contents.signer)}});
    text += "whole: " + summary(contents, path);
  }
  std::vector<pack::Missing> lacking;
  if (!o.workload.empty()) lacking = missing_in_all(o);
  for (const pack::Missing& one : lacking) {
    lacks.push_back({{"arch", one.arch}, {"label", one.label}, {"command", one.command}});
    text += fmt::format("missing: {} {}\n  {}\n", one.arch, one.label, one.command);
  }
  if (!o.workload.empty() && lacking.empty()) text += "every kernel of the workload is there\n";
  if (o.json) {
    print_json({{"packs", packs}, {"missing", lacks}});
  } else {
    print(text);
  }
  return lacking.empty() ? 0 : 1;
}

int install(const PackOptions& o) {
  Json installed = Json::array();
  std::string text;
  for (const std::string& path : o.files) {
    installed.push_back(pack::install(path, o.folder));
    text += installed.back().get<std::string>() + "\n";
  }
  if (o.json) {
    print_json({{"installed", installed}});
  } else {
    print(text);
  }
  return 0;
}

int diff(const PackOptions& o) {
  const std::vector<std::string> lines = pack::diff(o.files[0], o.files[1]);
  if (o.json) {
    print_json({{"differences", lines}});
  } else {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    print(text);
  }
  return lines.empty() ? 0 : 1;
}

int keygen(const PackOptions& o) {
  const std::string& path = o.files.front();
  const std::string key = pack::make_key(path);
  if (o.json) {
    print_json({{"secret_key", path}, {"public_key_file", path + ".pub"}, {"public_key", key}});
  } else {
    print(fmt::format("secret key {}\npublic key {}.pub: {}\n", path, path, key));
  }
  return 0;
}

}  // namespace

int manage_packs(const PackOptions& options) {
  switch (options.action) {
    case PackAction::create:
      return create(options);
    case PackAction::list:
      return list(options);
    case PackAction::verify:
      return verify(options);
    case PackAction::install:
      return install(options);
    case PackAction::diff:
      return diff(options);
    case PackAction::merge:
      report(pack::merge(options.output, options.files, options.sign_key), options.output,
             options.json);
      return 0;
    case PackAction::keygen:
      break;
  }
  return keygen(options);
}

}  // namespace hipflash::cli
