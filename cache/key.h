/// \file
/// What identifies a code object: the inputs that decide its bytes, and the two names made from
/// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hipflash::cache {

/// Everything that decides what a compiled kernel is. File times and paths are not part of it: what
/// is stale is decided by content alone.
struct KeyInputs {
  std::string family;       ///< For example "cpu/attention_forward".
  std::string source_hash;  ///< hash_hex() of the full source text, embedded headers included.
  std::string prologue;     ///< The generated text that holds the Spec's constants.
  std::vector<std::string> options;  ///< Compiler options, in order.
  std::string arch;                  ///< Full architecture name with its features.
  std::string compiler;              ///< Version and build identity of the compiler.
  std::uint32_t abi = 0;             ///< ABI number of the launcher.

  friend bool operator==(const KeyInputs&, const KeyInputs&) = default;
};

/// Number of characters of a key, a spec id and a hash: 32 bytes in lowercase hexadecimal.
inline constexpr std::size_t kKeyLength = 64;

/// BLAKE2b with 32 bytes of output, in lowercase hexadecimal.
/// `inputs.source_hash = hash_hex(source_text);`
std::string hash_hex(std::string_view text);

/// Names one exact build: equal keys mean interchangeable bytes.
std::string key_of(const KeyInputs& inputs);

/// Names what a kernel computes and how it is called, whatever compiler and options made it.
std::string spec_id_of(const KeyInputs& inputs);

/// True for a string that key_of() can have returned. Everything used as a file name must pass.
bool is_key(std::string_view text) noexcept;

}  // namespace hipflash::cache
