#include "cache/key.h"

#include <algorithm>

#include "cache/checksum.h"

namespace hipflash::cache {

std::string hash_hex(std::string_view text) {
  return to_hex(Checksum().update(text).digest());
}

std::string key_of(const KeyInputs& inputs) {
  Checksum checksum;
  checksum.update_field("hipflash key")
      .update_field(inputs.family)
      .update_field(inputs.source_hash)
      .update_field(inputs.prologue)
      .update_number(inputs.options.size());
  for (const std::string& option : inputs.options) checksum.update_field(option);
  checksum.update_field(inputs.arch).update_field(inputs.compiler).update_number(inputs.abi);
  return to_hex(checksum.digest());
}

std::string spec_id_of(const KeyInputs& inputs) {
  return to_hex(Checksum()
                    .update_field("hipflash spec")
                    .update_field(inputs.family)
                    .update_field(inputs.source_hash)
                    .update_field(inputs.prologue)
                    .update_field(inputs.arch)
                    .update_number(inputs.abi)
                    .digest());
}

bool is_key(std::string_view text) noexcept {
  return text.size() == kKeyLength && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace hipflash::cache
