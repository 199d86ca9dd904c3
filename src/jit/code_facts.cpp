#include "jit/code_facts.h"

#include <elf.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/fail.h"
#include "jit/elf_view.h"
#include "jit/register_file.h"

namespace hipflash::jit {
namespace {

using nlohmann::json;

constexpr std::uint16_t kMachineAmd = 224, kMachineCuda = 190;

std::int64_t text_bytes(const ElfView& elf) {
  std::int64_t sum = 0;
  for (const ElfView::Section& section : elf.sections()) {
    if (section.flags & SHF_EXECINSTR) sum += static_cast<std::int64_t>(section.bytes.size());
  }
  return sum;
}

// Sizes of the functions that the object defines, by name.
std::map<std::string_view, std::int64_t> function_sizes(const ElfView& elf) {
  std::map<std::string_view, std::int64_t> sizes;
  for (const ElfView::Symbol& symbol : elf.symbols()) {
    if (symbol.type != STT_FUNC || symbol.section == SHN_UNDEF || symbol.binding == STB_LOCAL) {
      continue;
    }
    // A size beyond the file is a lie that must not be added to anything.
    constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
    sizes[symbol.name] = static_cast<std::int64_t>(std::min(symbol.size, kMost));
  }
  return sizes;
}

// ---- AMD: a MessagePack document in a note ------------------------------------------------------

constexpr std::uint32_t kAmdMetadata = 32;  // NT_AMDGPU_METADATA
constexpr std::size_t kLargestMetadata = std::size_t{4} << 20;
constexpr int kDeepestMetadata = 32;

// Stops the parser at a nesting that would exhaust the stack.
class DepthLimit : public json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kDeepestMetadata; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ <= kDeepestMetadata; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
};

json amd_metadata(const ElfView& elf) {
  const ByteSpan note = elf.note("AMDGPU", kAmdMetadata);
  const auto* const begin = reinterpret_cast<const unsigned char*>(note.data());
  const auto* const end = begin + note.size();
  DepthLimit limit;
  if (note.empty() || note.size() > kLargestMetadata ||
      !json::sax_parse(begin, end, &limit, json::input_format_t::msgpack)) {
    fail(ErrorCode::InvalidArgument, "not a code object: it has no readable AMDGPU metadata");
  }
  json document = json::from_msgpack(begin, end, true, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    fail(ErrorCode::InvalidArgument, "not a code object: its AMDGPU metadata is no map");
  }
  return document;
}

std::string text_of(const json& map, const char* name) {
  const auto found = map.find(name);
  return found != map.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <class T>
std::optional<T> number_of(const json& map, const char* name) {
  const auto found = map.find(name);
  if (found == map.end() || !found->is_number_integer()) return std::nullopt;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto value = found->get<std::int64_t>();
  if (value < 0 || value > kMost) return std::nullopt;
  return static_cast<T>(value);
}

KernelResources amd_kernel(const json& map, const std::string& arch) {
  KernelResources kernel;
  kernel.name = text_of(map, ".name");
  kernel.vector_registers = number_of<int>(map, ".vgpr_count");
  kernel.accumulation_registers = number_of<int>(map, ".agpr_count");
  kernel.scalar_registers = number_of<int>(map, ".sgpr_count");
  kernel.spilled_vector = number_of<int>(map, ".vgpr_spill_count");
  kernel.spilled_scalar = number_of<int>(map, ".sgpr_spill_count");
  kernel.shared_bytes = number_of<std::int64_t>(map, ".group_segment_fixed_size");
  kernel.scratch_bytes = number_of<std::int64_t>(map, ".private_segment_fixed_size");
  kernel.wave_lanes = number_of<int>(map, ".wavefront_size");
  kernel.max_threads = number_of<int>(map, ".max_flat_workgroup_size");
  if (kernel.vector_registers) {
    kernel.waves_per_simd =
        waves_per_simd(arch, kernel.wave_lanes.value_or(64), *kernel.vector_registers,
                       kernel.scalar_registers.value_or(0));
  }
  return kernel;
}

void read_amd(const ElfView& elf, CodeFacts* facts) {
  facts->format = CodeFormat::hsaco;
  const json metadata = amd_metadata(elf);
  if (facts->arch.empty()) {
    const std::string target = text_of(metadata, "amdhsa.target");
    const std::size_t name = target.rfind("--");
    facts->arch = name == std::string::npos ? target : target.substr(name + 2);
  }
  const auto sizes = function_sizes(elf);
  const auto kernels = metadata.find("amdhsa.kernels");
  if (kernels == metadata.end() || !kernels->is_array()) return;
  for (const json& map : *kernels) {
    if (!map.is_object()) continue;
    KernelResources kernel = amd_kernel(map, facts->arch);
    const auto size = sizes.find(kernel.name);
    if (size != sizes.end()) kernel.text_bytes = size->second;
    facts->kernels.push_back(std::move(kernel));
  }
}

// ---- NVIDIA: attributes in sections .nv.info and .nv.info.<kernel>
// -------------------------------

enum CudaAttribute : unsigned {
  kMaxThreads = 0x05,
  kFrameSize = 0x11,
  kMinStack = 0x12,
  kRegisters = 0x2f
};

// Calls `use(attribute, value)` for each attribute that has bytes of its own.
template <class Use>
void each_attribute(ByteSpan section, Use&& use) {
  constexpr unsigned kSized = 4;  // the two bytes after format and name are a size, not a value
  std::uint64_t at = 0;
  while (const auto format = read_at<std::uint8_t>(section, at)) {
    const auto name = read_at<std::uint8_t>(section, at + 1);
    const auto size = read_at<std::uint16_t>(section, at + 2);
    if (!name || !size) return;
    at += 4;
    if (*format != kSized) continue;
    const auto value = bytes_at(section, at, *size);
    if (!value) return;
    use(static_cast<unsigned>(*name), *value);
    at += *size;
  }
}

std::optional<int> small_number(ByteSpan value, std::uint64_t offset) {
  const auto number = read_at<std::uint32_t>(value, offset);
  if (!number || *number > std::uint32_t{std::numeric_limits<std::int32_t>::max()}) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

std::optional<int> threads_of(ByteSpan value) {
  std::int64_t threads = 1;
  for (const unsigned offset : {0u, 4u, 8u}) {
    const auto side = small_number(value, offset);
    if (!side || *side > 1024) return std::nullopt;
    threads *= *side;
  }
  return static_cast<int>(threads);
}

// Instructions are 16 bytes since sm_70; the low 12 bits tell them apart.
int count_local_accesses(ByteSpan text) {
  constexpr unsigned kLoadLocal = 0x983, kStoreLocal = 0x387;
  int count = 0;
  for (std::uint64_t at = 0; const auto word = read_at<std::uint16_t>(text, at); at += 16) {
    const unsigned operation = *word & 0xfffu;
    count += operation == kLoadLocal || operation == kStoreLocal;
  }
  return count;
}

void read_cuda(const ElfView& elf, CodeFacts* facts) {
  facts->format = CodeFormat::cubin;
  if (facts->arch.empty()) {
    // Since ABI version 8 the architecture is the second byte of the flags.
    const unsigned first = elf.flags() & 0xffu, second = elf.flags() >> 8 & 0xffu;
    facts->arch = fmt::format("sm_{}", second >= 70 ? second : first);
  }
  constexpr std::string_view kText = ".text.", kInfo = ".nv.info", kShared = ".nv.shared.";
  std::map<std::string_view, KernelResources> kernels;
  for (const ElfView::Section& section : elf.sections()) {
    if (section.name.substr(0, kText.size()) != kText) continue;
    const std::string_view name = section.name.substr(kText.size());
    KernelResources& kernel = kernels[name];
    kernel.name = name;
    kernel.wave_lanes = 32;
    kernel.shared_bytes = 0;
    kernel.text_bytes = static_cast<std::int64_t>(section.bytes.size());
    kernel.local_accesses = count_local_accesses(section.bytes);
  }
  const auto find = [&](std::string_view name) {
    const auto found = kernels.find(name);
    return found == kernels.end() ? nullptr : &found->second;
  };
  const std::vector<ElfView::Symbol> symbols = elf.symbols();
  for (const ElfView::Section& section : elf.sections()) {
    if (section.name.substr(0, kShared.size()) == kShared) {
      KernelResources* const kernel = find(section.name.substr(kShared.size()));
      constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
      if (kernel) kernel->shared_bytes = static_cast<std::int64_t>(std::min(section.size, kMost));
    } else if (section.name == kInfo) {
      each_attribute(section.bytes, [&](unsigned attribute, ByteSpan value) {
        const auto symbol = small_number(value, 0);
        const auto number = small_number(value, 4);
        if (!symbol || static_cast<std::size_t>(*symbol) >= symbols.size() || !number) return;
        KernelResources* const kernel = find(symbols[static_cast<std::size_t>(*symbol)].name);
        if (!kernel) return;
        if (attribute == kRegisters) kernel->vector_registers = *number;
        if (attribute == kFrameSize || attribute == kMinStack) {
          kernel->scratch_bytes =
              std::max<std::int64_t>(kernel->scratch_bytes.value_or(0), *number);
        }
      });
    } else if (section.name.substr(0, kInfo.size()) == kInfo) {
      KernelResources* const kernel = find(section.name.substr(kInfo.size() + 1));
      if (!kernel) continue;
      each_attribute(section.bytes, [&](unsigned attribute, ByteSpan value) {
        if (attribute == kMaxThreads) kernel->max_threads = threads_of(value);
      });
    }
  }
  for (auto& [name, kernel] : kernels) {
    if (kernel.vector_registers) {
      kernel.waves_per_simd = waves_per_simd(facts->arch, 32, *kernel.vector_registers, 0);
    }
    facts->kernels.push_back(std::move(kernel));
  }
}

// ---- CPUs ---------------------------------------------------------------------------------------

void read_shared_object(const ElfView& elf, CodeFacts* facts) {
  facts->format = CodeFormat::shared_object;
  for (const auto& [name, size] : function_sizes(elf)) {
    KernelResources kernel;
    kernel.name = name;
    kernel.text_bytes = size;
    facts->kernels.push_back(std::move(kernel));
  }
}

}  // namespace

CodeFacts read_code_facts(std::span<const std::byte> code, const std::string& arch) {
  const ElfView elf(code);
  CodeFacts facts;
  facts.arch = arch;
  facts.bytes = code.size();
  facts.text_bytes = text_bytes(elf);
  switch (elf.machine()) {
    case kMachineAmd:
      read_amd(elf, &facts);
      break;
    case kMachineCuda:
      read_cuda(elf, &facts);
      break;
    default:
      read_shared_object(elf, &facts);
  }
  return facts;
}

}  // namespace hipflash::jit
