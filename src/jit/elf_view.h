// The sections, symbols and notes of a 64-bit little-endian ELF file in memory. The file is not
// trusted: whatever it says is checked against its size before it is followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hipflash::jit {

using ByteSpan = std::span<const std::byte>;

// The bytes from `offset` on, or nothing if they are not all there.
inline std::optional<ByteSpan> bytes_at(ByteSpan bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// A number or plain struct of the file.
template <class T>
std::optional<T> read_at(ByteSpan bytes, std::uint64_t offset) {
  const auto found = bytes_at(bytes, offset, sizeof(T));
  if (!found) return std::nullopt;
  T value;
  std::memcpy(&value, found->data(), sizeof value);
  return value;
}

class ElfView {
 public:
  struct Section {
    std::string_view name;
    std::uint32_t type = 0;
    std::uint64_t flags = 0;
    std::uint64_t size = 0;
    std::uint32_t link = 0;
    ByteSpan bytes;  // empty for sections without bytes in the file
  };
  struct Symbol {
    std::string_view name;
    unsigned type = 0;          // STT_...
    unsigned binding = 0;       // STB_...
    std::uint16_t section = 0;  // SHN_UNDEF: defined elsewhere
    std::uint64_t size = 0;
  };

  // Throws Error(InvalidArgument) saying what is wrong. The bytes must outlive the view.
  explicit ElfView(ByteSpan file);

  std::uint16_t machine() const noexcept { return machine_; }  // EM_...
  std::uint32_t flags() const noexcept { return flags_; }
  const std::vector<Section>& sections() const noexcept { return sections_; }

  // Of .symtab, else of .dynsym, in the file's order.
  std::vector<Symbol> symbols() const;

  // The first note of this owner and type; empty if there is none.
  ByteSpan note(std::string_view owner, std::uint32_t type) const;

 private:
  std::uint16_t machine_ = 0;
  std::uint32_t flags_ = 0;
  std::vector<Section> sections_;
};

}  // namespace hipflash::jit
