#include "jit/source.h"

#include <algorithm>
#include <array>
#include <set>

#include "cache/key.h"
#include "core/fail.h"

namespace hipflash::jit {
namespace {

std::string_view file_text(std::string_view path, std::string_view wanted_by) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) return file.text;
  }
  fail(ErrorCode::Internal, "{} asks for kernel_sources/{}, which is not embedded in the library",
       wanted_by, path);
}

std::string_view skip_blanks(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t");
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

// What follows `#<word>` on a preprocessor line; no value if it is another line.
std::optional<std::string_view> directive(std::string_view line, std::string_view word) {
  line = skip_blanks(line);
  if (line.empty() || line.front() != '#') return std::nullopt;
  line = skip_blanks(line.substr(1));
  if (!line.starts_with(word)) return std::nullopt;
  return skip_blanks(line.substr(word.size()));
}

class Assembler {
 public:
  void add_file(std::string_view path, std::string_view wanted_by) {
    if (!seen_.emplace(path).second) return;
    const std::string_view text = file_text(path, wanted_by);
    const std::string name = fmt::format("kernel_sources/{}", path);
    mark(1, name);
    std::size_t number = 0;
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = std::min(text.find('\n', start), text.size());
      const std::string_view line = text.substr(start, end - start);
      start = end + 1;
      ++number;
      if (const auto rest = directive(line, "include"); rest && rest->starts_with('"')) {
        const std::size_t close = rest->find('"', 1);
        if (close == std::string_view::npos) {
          fail(ErrorCode::Internal, "{}:{}: the #include has no closing quote", name, number);
        }
        const std::string_view included = rest->substr(1, close - 1);
        if (!seen_.contains(included)) {
          add_file(included, fmt::format("{}:{}", name, number));
          mark(number + 1, name);
        } else {
          text_ += '\n';
        }
      } else if (const auto pragma = directive(line, "pragma"); pragma && *pragma == "once") {
        text_ += '\n';
      } else {
        text_.append(line) += '\n';
      }
    }
  }

  void add_facts(std::string_view facts) {
    text_ += "namespace hipflash {\nstruct Spec {\n";
    mark(1, "hipflash/spec");
    text_.append(facts);
    if (!facts.empty() && facts.back() != '\n') text_ += '\n';
    text_ += "};\n}\n";
  }

  std::string take() { return std::move(text_); }

 private:
  void mark(std::size_t line, std::string_view name) {
    text_ += fmt::format("#line {} \"{}\"\n", line, name);
  }

  std::set<std::string, std::less<>> seen_;
  std::string text_;
};

}  // namespace

#define HIPFLASH_FAMILY(name, file, platform, ...) \
  constexpr std::string_view entries_of_##name[] = {__VA_ARGS__};
namespace {
#include "kernels.inc"
}  // namespace
#undef HIPFLASH_FAMILY

std::span<const Family> families() noexcept {
#define HIPFLASH_FAMILY(name, file, platform, ...) \
  Family{#name, file, FamilyPlatform::platform, entries_of_##name},
  static constexpr Family table[] = {
#include "kernels.inc"
  };
#undef HIPFLASH_FAMILY
  return table;
}

const Family* find_family(std::string_view file) noexcept {
  const auto all = families();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Family& family) { return family.file == file; });
  return found == all.end() ? nullptr : &*found;
}

std::string source_text(const Spec& spec) {
  Assembler assembler;
  assembler.add_file("common/attention_args.h", "the prologue");
  assembler.add_facts(spec.facts);
  assembler.add_file(spec.family, "a Spec");
  return assembler.take();
}

std::string source_hash(std::string_view family_file) {
  Assembler assembler;
  assembler.add_file("common/attention_args.h", "the prologue");
  assembler.add_file(family_file, "source_hash()");
  return cache::hash_hex(assembler.take());
}

}  // namespace hipflash::jit
