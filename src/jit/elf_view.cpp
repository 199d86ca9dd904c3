#include "jit/elf_view.h"

#include <elf.h>

#include <algorithm>

#include "core/fail.h"

namespace hipflash::jit {
namespace {

// Longer names are cut: looking for their end in each of many sections could take very long.
constexpr std::size_t kLongestName = 1024;

std::string_view text_at(ByteSpan table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const ByteSpan rest = table.subspan(static_cast<std::size_t>(offset));
  const std::size_t limit = std::min(rest.size(), kLongestName);
  const char* const text = reinterpret_cast<const char*>(rest.data());
  return {text, ::strnlen(text, limit)};
}

[[noreturn]] void refuse(const char* reason) {
  fail(ErrorCode::InvalidArgument, "not a code object: {}", reason);
}

std::uint64_t align4(std::uint64_t size) {
  return (size + 3) & ~std::uint64_t{3};
}

}  // namespace

ElfView::ElfView(ByteSpan file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header) refuse("it is shorter than the header of an ELF file");
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) refuse("it is not an ELF file");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    refuse("it is not a 64-bit little-endian ELF file");
  }
  if (header->e_shnum != 0 && header->e_shentsize != sizeof(Elf64_Shdr)) {
    refuse("its section headers have an unknown size");
  }
  machine_ = header->e_machine;
  flags_ = header->e_flags;

  std::vector<Elf64_Shdr> headers;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    // The number of sections is below 2^16, so only the offset can be too large.
    if (header->e_shoff > file.size()) refuse("its section headers lie outside of it");
    const auto section = read_at<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) refuse("its section headers lie outside of it");
    headers.push_back(*section);
  }
  std::uint64_t held = 0;
  for (const Elf64_Shdr& section : headers) {
    Section made;
    made.type = section.sh_type;
    made.flags = section.sh_flags;
    made.size = section.sh_size;
    made.link = section.sh_link;
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL) {
      const auto bytes = bytes_at(file, section.sh_offset, section.sh_size);
      if (!bytes) refuse("a section lies outside of it");
      made.bytes = *bytes;
      // Readers go over every section once, so the sum bounds their work.
      held += bytes->size();
      if (held > file.size()) refuse("its sections overlap");
    }
    sections_.push_back(made);
  }
  if (header->e_shstrndx < sections_.size()) {
    const ByteSpan names = sections_[header->e_shstrndx].bytes;
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      sections_[i].name = text_at(names, headers[i].sh_name);
    }
  }
}

std::vector<ElfView::Symbol> ElfView::symbols() const {
  std::vector<Symbol> all;
  for (const std::uint32_t type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}}) {
    const auto table = std::find_if(sections_.begin(), sections_.end(),
                                    [type](const Section& s) { return s.type == type; });
    if (table == sections_.end()) continue;
    const ByteSpan names =
        table->link < sections_.size() ? sections_[table->link].bytes : ByteSpan{};
    const std::size_t count = table->bytes.size() / sizeof(Elf64_Sym);
    for (std::size_t i = 0; i < count; ++i) {
      const auto symbol = *read_at<Elf64_Sym>(table->bytes, i * sizeof(Elf64_Sym));
      const unsigned info = symbol.st_info;  // binding and type
      all.push_back(
          {text_at(names, symbol.st_name), info & 0xf, info >> 4, symbol.st_shndx, symbol.st_size});
    }
    break;
  }
  return all;
}

ByteSpan ElfView::note(std::string_view owner, std::uint32_t type) const {
  for (const Section& section : sections_) {
    if (section.type != SHT_NOTE) continue;
    std::uint64_t at = 0;
    while (const auto header = read_at<Elf64_Nhdr>(section.bytes, at)) {
      const std::uint64_t name = at + sizeof *header;
      const std::uint64_t content = name + align4(header->n_namesz);
      if (header->n_type == type && text_at(section.bytes, name) == owner) {
        return bytes_at(section.bytes, content, header->n_descsz).value_or(ByteSpan{});
      }
      at = content + align4(header->n_descsz);
    }
  }
  return {};
}

}  // namespace hipflash::jit
