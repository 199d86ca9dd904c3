// Source assembly: from a Spec to the one text that is hashed and compiled.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "jit/spec.h"

namespace hipflash::jit {

// A file of kernel_sources/, embedded in the library at build time.
struct EmbeddedFile {
  std::string_view path;  // below kernel_sources/, such as "common/mask.h"
  std::string_view text;
};
std::span<const EmbeddedFile> embedded_files() noexcept;  // ordered by path

// Which compilers a family is written for.
enum class FamilyPlatform { cpu, gpu, hip, cuda };  // gpu: both hip and cuda

// One line of kernel_sources/kernels.inc.
struct Family {
  std::string_view name;  // for people, such as "cpu_attention_forward"
  std::string_view file;  // as in Spec::family
  FamilyPlatform platform;
  std::span<const std::string_view> entries;  // the extern "C" functions of its code objects
};
std::span<const Family> families() noexcept;
const Family* find_family(std::string_view file) noexcept;  // null when unknown

// The prologue (common/attention_args.h, then `struct Spec` with the facts), then the family's
// file. Every #include "x" of kernel_sources is replaced by that file's text, once; <...> includes
// stay. #line directives name kernel_sources files, so compiler messages do too. Throws
// Error(Internal) for an unknown family or include.
std::string source_text(const Spec& spec);

// Hash (hex) of a family's text without facts: what a stored tuning result or a report refers to.
std::string source_hash(std::string_view family_file);

}  // namespace hipflash::jit
