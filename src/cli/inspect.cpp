#include "hipflash/inspect.h"

#include <algorithm>

#include "cli/commands.h"
#include "cli/npy.h"
#include "core/format.h"

namespace hipflash::cli {
namespace {

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const KernelResources& kernel) {
  return {{"name", kernel.name},
          {"vector_registers", json_of(kernel.vector_registers)},
          {"accumulation_registers", json_of(kernel.accumulation_registers)},
          {"scalar_registers", json_of(kernel.scalar_registers)},
          {"spilled_vector", json_of(kernel.spilled_vector)},
          {"spilled_scalar", json_of(kernel.spilled_scalar)},
          {"local_accesses", json_of(kernel.local_accesses)},
          {"shared_bytes", json_of(kernel.shared_bytes)},
          {"scratch_bytes", json_of(kernel.scratch_bytes)},
          {"wave_lanes", json_of(kernel.wave_lanes)},
          {"max_threads", json_of(kernel.max_threads)},
          {"waves_per_simd", json_of(kernel.waves_per_simd)},
          {"text_bytes", kernel.text_bytes}};
}

// The lines of `struct Spec` as they are in the kernel text, without what all lines share.
std::vector<std::string> constants_of(const std::string& facts) {
  constexpr std::string_view kShared = "static constexpr ";
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < facts.size()) {
    const std::size_t end = std::min(facts.find('\n', at), facts.size());
    std::string_view line(facts.data() + at, end - at);
    const std::size_t start = line.find(kShared);
    const std::size_t stop = line.rfind(';');
    if (start != std::string_view::npos && stop != std::string_view::npos && stop > start) {
      line = line.substr(0, stop).substr(start + kShared.size());
      lines.emplace_back(line.substr(std::min(line.find(' ') + 1, line.size())));
    }
    at = end + 1;
  }
  return lines;
}

Json json_of(const Inspection& found) {
  Json kernels = Json::array();
  for (const KernelResources& kernel : found.code.kernels) kernels.push_back(json_of(kernel));
  Json json = {{"file", found.file},
               {"format", to_string(found.code.format)},
               {"arch", found.arch},
               {"bytes", found.code.bytes},
               {"text_bytes", found.code.text_bytes},
               {"kernels", std::move(kernels)}};
  if (found.is_entry) {
    json["key"] = found.key;
    json["kernel"] = found.family;
    json["label"] = found.label;
    json["compiler"] = found.compiler;
    json["options"] = found.options;
    json["abi"] = found.abi;
    json["source_hash"] = found.source_hash;
    json["constants"] = constants_of(found.facts);
  }
  return json;
}

std::string text_of(const KernelResources& kernel, CodeFormat format) {
  std::string text = fmt::format("{}\n  code       {} bytes\n", kernel.name, kernel.text_bytes);
  const bool amd = format == CodeFormat::hsaco;
  if (kernel.vector_registers) {
    text += fmt::format("  registers  {}", *kernel.vector_registers);
    if (amd) {
      text += " vector";
      if (const int of_them = kernel.accumulation_registers.value_or(0)) {
        text += fmt::format(" ({} for accumulation)", of_them);
      }
      text += fmt::format(", {} scalar", kernel.scalar_registers.value_or(0));
    }
    if (kernel.waves_per_simd) {
      text += fmt::format(": {} {}", *kernel.waves_per_simd,
                          amd ? "waves per SIMD" : "warps per scheduler");
    }
    text += "\n";
  }
  if (kernel.shared_bytes) {
    text += fmt::format("  shared     {} bytes{}\n", *kernel.shared_bytes,
                        amd ? "" : ", besides what a launch asks for");
  }
  if (kernel.scratch_bytes) {
    text += fmt::format("  scratch    {} bytes per lane", *kernel.scratch_bytes);
    if (kernel.spilled_vector) {
      text += fmt::format(", {} vector and {} scalar registers spilled", *kernel.spilled_vector,
                          kernel.spilled_scalar.value_or(0));
    }
    if (kernel.local_accesses) text += fmt::format(", {} accesses", *kernel.local_accesses);
    text += "\n";
  }
  if (kernel.max_threads) {
    text += fmt::format("  block      {} threads at most, waves of {}\n", *kernel.max_threads,
                        kernel.wave_lanes.value_or(0));
  }
  return text;
}

std::string text_of(const Inspection& found) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12} {}\n", name, value);
  };
  line("file", found.file);
  line("key", found.key);
  line("kernel", found.family);
  line("label", found.label);
  line("arch", found.arch);
  line("compiler", found.compiler);
  line("options", fmt::format("{}", fmt::join(found.options, " ")));
  line("constants", fmt::format("{}", fmt::join(constants_of(found.facts), ", ")));
  line("source hash", found.source_hash);
  if (found.is_entry) line("ABI", fmt::format("{}", found.abi));
  line("format", fmt::format("{}, {} bytes, {} of code", to_string(found.code.format),
                             found.code.bytes, found.code.text_bytes));
  for (const KernelResources& kernel : found.code.kernels) {
    text += text_of(kernel, found.code.format);
  }
  return text;
}

}  // namespace

int inspect_code(const InspectOptions& options) {
  Inspection found;
  try {
    found = inspect(options.what);
  } catch (const Error& error) {  // what the file holds is no wrong usage
    throw FileError(error.what());
  }
  if (options.json) {
    print_json(json_of(found));
  } else {
    print(text_of(found));
  }
  return 0;
}

}  // namespace hipflash::cli
