#include "hipflash/inspect.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "api/context_impl.h"
#include "cache/entry.h"
#include "cache/entry_file.h"
#include "core/fail.h"
#include "jit/code_facts.h"

namespace hipflash {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShortestKey = 8;

std::vector<std::byte> read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    fail(ErrorCode::InvalidArgument, "{} is not a file that can be read", path.string());
  }
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error || bytes > cache::kMaxFileBytes) {
    fail(ErrorCode::InvalidArgument, "{} is larger than any code object: {} bytes", path.string(),
         bytes);
  }
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!file) fail(ErrorCode::InvalidArgument, "{} cannot be read", path.string());
  return content;
}

bool could_be_key(const std::string& text) {
  return text.size() >= kShortestKey && text.size() <= cache::kKeyLength &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The entry file whose key begins so, in the user cache or a prebuilt folder. The same key in
// several places is one entry, taken where a search would find it first.
fs::path find_entry(const std::string& key, const ContextOptions& options) {
  const jit::ProviderOptions provider = api::provider_options(options);
  std::vector<std::string> folders = {provider.cache_dir};
  folders.insert(folders.end(), provider.prebuilt.begin(), provider.prebuilt.end());
  folders.insert(folders.end(), provider.installed.begin(), provider.installed.end());
  std::map<std::string, fs::path> found;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const fs::path& path = at->path();
      const std::string stem = path.stem().string();
      if (path.extension() == cache::kEntrySuffix && stem.rfind(key, 0) == 0) {
        found.emplace(stem, path);
      }
    }
  }
  if (found.empty()) {
    fail(ErrorCode::InvalidArgument, "\"{}\" is neither a file nor the key of an entry in {}", key,
         fmt::join(folders, ", "));
  }
  if (found.size() > 1) {
    std::string keys;
    for (const auto& [name, path] : found) keys += "\n  " + name;
    fail(ErrorCode::InvalidArgument, "\"{}\" is the beginning of {} keys:{}", key, found.size(),
         keys);
  }
  return found.begin()->second;
}

Inspection inspect_entry(cache::ByteView file, const std::string& path) {
  const cache::Decoded<cache::Entry> entry = cache::decode(file);
  if (!entry) fail(ErrorCode::InvalidArgument, "{} is a damaged entry: {}", path, entry.reason);
  const cache::KeyInputs& inputs = entry->info.inputs;
  Inspection result;
  result.is_entry = true;
  result.key = cache::key_of(inputs);
  result.family = inputs.family;
  result.arch = inputs.arch;
  result.label = entry->info.label;
  result.compiler = inputs.compiler;
  result.source_hash = inputs.source_hash;
  result.facts = inputs.prologue;
  result.options = inputs.options;
  result.abi = static_cast<int>(inputs.abi);
  result.code = jit::read_code_facts(std::as_bytes(std::span(entry->code)), inputs.arch);
  return result;
}

}  // namespace

const char* to_string(CodeFormat format) noexcept {
  static constexpr const char* kNames[] = {"hsaco", "cubin", "shared object"};
  return kNames[static_cast<int>(format)];
}

CodeFacts read_code_facts(const void* data, std::size_t bytes, const std::string& arch) {
  return jit::read_code_facts({static_cast<const std::byte*>(data), bytes}, arch);
}

Inspection inspect(const std::string& file_or_key, const ContextOptions& options) {
  std::error_code error;
  fs::path path = file_or_key;
  if (!fs::exists(path, error)) {
    if (!could_be_key(file_or_key)) {
      fail(ErrorCode::InvalidArgument,
           "\"{}\" is neither a file nor a key: {} or more digits of 0-9a-f", file_or_key,
           kShortestKey);
    }
    path = find_entry(file_or_key, options);
  }
  const std::vector<std::byte> content = read_file(path);
  const cache::ByteView view(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
  constexpr std::string_view kMagic = "HFLENTRY";
  Inspection result;
  if (view.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), view.begin())) {
    result = inspect_entry(view, path.string());
  } else {
    result.code = jit::read_code_facts(content);
    result.arch = result.code.arch;
  }
  result.file = path.string();
  return result;
}

}  // namespace hipflash
