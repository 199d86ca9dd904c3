// libFuzzer: no bytes may crash the reader of cache entries, and whatever it accepts must write and
// read back as the same. The first byte of the input chooses whether the checksum is made right
// before reading, as nothing behind it would be reached otherwise.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "cache/checksum.h"
#include "cache/entry.h"

namespace cache = hipflash::cache;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  cache::Bytes file(data + 1, data + size);
  if ((data[0] & 1) != 0 && file.size() >= cache::kPrefixBytes) {
    const cache::ByteView view(file);
    const cache::Digest sum = cache::Checksum()
                                  .update(view.first(cache::kPrefixBytes - 32))
                                  .update(view.subspan(cache::kPrefixBytes))
                                  .digest();
    std::copy(sum.begin(), sum.end(), file.begin() + cache::kPrefixBytes - 32);
  }
  const auto header = cache::decode_header(file);
  if (header.value.has_value() == !header.reason.empty()) std::abort();
  const auto entry = cache::decode(file);
  if (entry.value.has_value() == !entry.reason.empty()) std::abort();
  if (entry) {
    if (!header || header->key != cache::key_of(entry->info.inputs)) std::abort();
    const auto again = cache::decode(cache::encode(entry->info, entry->code));
    if (!again || again->code != entry->code || again->info != entry->info) std::abort();
  }
  return 0;
}
