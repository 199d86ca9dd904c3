// What is done with packs that exist.
#include "hipflash/pack.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "api/check.h"
#include "api/operation_kernels.h"
#include "api/pack_io.h"
#include "api/planning.h"
#include "cache/directory.h"
#include "cache/trusted_file.h"
#include "cache/write_file.h"
#include "core/fail.h"
#include "jit/code_provider.h"
#include "jit/installation.h"

namespace hipflash::pack {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPackMode = 0644;

std::shared_ptr<const cache::Pack> open_whole(const std::string& path) {
  auto pack = open_pack(path);
  if (const std::string fault = pack->verify(); !fault.empty()) {
    fail(ErrorCode::CacheUnusable, "the pack {} is refused: {}", path, fault);
  }
  return pack;
}

template <class Value>
Value require(cache::Decoded<Value> decoded, const std::string& path) {
  if (!decoded) fail(ErrorCode::CacheUnusable, "the pack {} is refused: {}", path, decoded.reason);
  return std::move(*decoded);
}

std::string describe(const cache::PackEntry& entry) {
  return fmt::format("{:.16} {} {}", entry.key, entry.info.inputs.arch, entry.info.label);
}

// Everything about a pack that diff() compares, by what names it.
std::map<std::string, std::pair<std::string, std::string>> described(const cache::Pack& pack) {
  std::map<std::string, std::pair<std::string, std::string>> lines;
  for (const auto& entry : pack.entries()) {
    lines[entry.key] = {describe(entry), entry.code_hash};
  }
  for (const auto& document : pack.documents()) {
    lines["tuned " + document.name] = {"tuned " + document.name,
                                       require(pack.document(document), pack.name())};
  }
  return lines;
}

// Makes a folder that code may be loaded from. Empty, or why it is none.
std::string prepare(const std::string& folder) {
  if (folder.empty()) return "no such folder is known";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fmt::format("{}: {}", folder, error.message());
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return folder + " cannot be looked at";
  if (std::string reason = cache::untrusted_reason(status); !reason.empty()) {
    return folder + " " + reason;
  }
  return {};
}

}  // namespace

std::optional<cache::SecretKey> read_signing_key(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return cache::read_secret_key(path);
}

std::shared_ptr<const cache::Pack> open_pack(const std::string& path) {
  return require(cache::Pack::inspect(path, jit::provider_options_from_settings().trust), path);
}

Contents contents_of(const cache::Pack& pack) {
  Contents contents;
  for (const cache::PackEntry& entry : pack.entries()) {
    const cache::KeyInputs& inputs = entry.info.inputs;
    contents.kernels.push_back({entry.key, inputs.family, inputs.arch, entry.info.label,
                                inputs.compiler, entry.blob.bytes, entry.blob.stored_bytes});
  }
  for (const auto& document : pack.documents()) contents.tuned.push_back(document.name);
  if (pack.signer()) contents.signer = cache::to_hex(*pack.signer());
  contents.file_bytes = pack.file_bytes();
  return contents;
}

Contents write_pack(const std::string& path, cache::PackContent content,
                    const std::optional<cache::SecretKey>& secret) {
  const cache::Bytes bytes = cache::encode_pack(std::move(content), secret ? &*secret : nullptr);
  const auto pack = require(cache::Pack::in_memory(bytes, path), path);
  if (const std::string fault = cache::replace_file(path, bytes, kPackMode); !fault.empty()) {
    fail(ErrorCode::CacheUnusable, "the pack \"{}\" cannot be written: {}", path, fault);
  }
  return contents_of(*pack);
}

void require_writable_pack(const std::string& path) {
  if (const std::string fault = cache::why_not_replaceable(path); !fault.empty()) {
    fail(ErrorCode::CacheUnusable, "the pack \"{}\" cannot be written: {}", path, fault);
  }
}

Contents list(const std::string& path) {
  return contents_of(*open_pack(path));
}

Contents verify(const std::string& path) {
  return contents_of(*open_whole(path));
}

std::vector<Missing> missing(const std::string& path, const std::vector<WorkloadItem>& workload,
                             const std::vector<std::string>& archs) {
  const auto pack = open_pack(path);
  std::set<std::string> held, known;
  for (const auto& entry : pack->entries()) {
    held.insert(entry.spec_id);
    known.insert(entry.info.inputs.arch);
  }
  if (!archs.empty()) known = {archs.begin(), archs.end()};
  jit::ProviderOptions options = jit::provider_options_from_settings();
  options.forget_prebuilt();
  options.cache_dir.clear();
  options.mode = CompileMode::never;
  jit::CodeProvider provider(std::move(options));
  const auto holds = [&](const jit::Spec& spec) {
    cache::KeyInputs inputs = provider.key_inputs(spec);
    if (held.contains(cache::spec_id_of(inputs))) return true;
    inputs.arch.resize(std::min(inputs.arch.size(), inputs.arch.find(':')));
    return held.contains(cache::spec_id_of(inputs));
  };
  std::vector<Missing> lacking;
  std::set<std::string> said;
  const auto look = [&](const WorkloadItem& item, const std::string& arch, int compute_units) {
    if (item.is_operation()) {
      const jit::Spec spec = api::operation_spec(item.operation, arch);
      if (holds(spec) || !said.insert(provider.id(spec)).second) return;
      lacking.push_back({spec.arch, spec.label, api::pack_command(item.operation, spec.arch)});
      return;
    }
    api::check_problem(item.problem);
    if (api::is_empty(item.problem)) return;
    for (const jit::Spec& spec : api::specs_for(item.problem, arch, compute_units)) {
      if (holds(spec) || !said.insert(provider.id(spec)).second) continue;
      lacking.push_back(
          {spec.arch, spec.label, api::pack_command(item.problem, spec, compute_units)});
    }
  };
  for (const WorkloadItem& item : workload) {
    if (archs.empty() && !item.arch.empty()) {
      look(item, item.arch, item.compute_units);
    } else {
      for (const std::string& arch : known) {
        const bool same = item.arch.empty() || item.arch.substr(0, item.arch.find(':')) == arch;
        look(item, arch, same ? item.compute_units : 0);
      }
    }
  }
  return lacking;
}

std::string install(const std::string& path, const std::string& folder) {
  const cache::OpenedFile opened = cache::open_regular(path, cache::Links::Follow);
  if (opened.fault != cache::Fault::None) {
    fail(ErrorCode::CacheUnusable, "the pack {} is refused: {}", path, opened.reason);
  }
  cache::Bytes bytes;
  if (const int error = cache::io::read_up_to(opened.file.fd(), cache::kMaxPackBytes, bytes);
      error != 0) {
    fail(ErrorCode::CacheUnusable, "the pack {} cannot be read: {}", path,
         cache::io::error_text(error));
  }
  // What is written is what was checked, whatever happens to the file.
  const auto pack = require(
      cache::Pack::in_memory(bytes, path, jit::provider_options_from_settings().trust), path);
  if (const std::string fault = pack->verify(); !fault.empty()) {
    fail(ErrorCode::CacheUnusable, "the pack {} is refused: {}", path, fault);
  }
  std::string name = fs::path(path).filename().string();
  if (!name.ends_with(cache::kPackSuffix)) name += cache::kPackSuffix;
  std::vector<std::string> folders = {folder};
  if (folder.empty()) folders = {jit::library_pack_folder(), jit::user_pack_folder()};
  std::string faults;
  for (const std::string& candidate : folders) {
    std::string fault = prepare(candidate);
    std::string target = (fs::path(candidate) / name).string();
    if (fault.empty()) fault = cache::replace_file(target, bytes, kPackMode);
    if (fault.empty()) return target;
    faults += (faults.empty() ? "" : "; ") + fault;
  }
  fail(ErrorCode::CacheUnusable, "the pack {} cannot be installed: {}", path, faults);
}

std::vector<std::string> diff(const std::string& a, const std::string& b) {
  const auto before = described(*open_pack(a)), after = described(*open_pack(b));
  std::vector<std::string> lines;
  for (const auto& [name, one] : before) {
    const auto other = after.find(name);
    if (other == after.end()) {
      lines.push_back("- " + one.first);
    } else if (other->second.second != one.second) {
      lines.push_back("! " + one.first);
    }
  }
  for (const auto& [name, one] : after) {
    if (!before.contains(name)) lines.push_back("+ " + one.first);
  }
  return lines;
}

Contents merge(const std::string& path, const std::vector<std::string>& packs,
               const std::string& sign_key) {
  const auto secret = read_signing_key(sign_key);
  cache::PackContent content;
  std::set<std::string> keys;
  for (const std::string& one : packs) {
    const auto pack = open_whole(one);
    for (const auto& entry : pack->entries()) {
      if (!keys.insert(entry.key).second) continue;
      content.entries.push_back({entry.info, require(pack->code(entry), one)});
    }
    for (const auto& document : pack->documents()) {
      if (content.documents.contains(document.name)) continue;
      content.documents[document.name] = require(pack->document(document), one);
    }
  }
  return write_pack(path, std::move(content), secret);
}

std::string make_key(const std::string& path) {
  const cache::KeyPair keys = cache::make_key_pair();
  cache::write_key_files(path, keys);
  return cache::to_hex(keys.public_key);
}

}  // namespace hipflash::pack
