// libFuzzer: no bytes may crash the reader of packs, and whatever it accepts must write and read
// back as the same. The first byte of the input chooses what is made right before reading, as
// nothing behind a wrong hash or size would be reached otherwise: with bit 0 the bytes are an index
// in plain text, then a zero byte and the blobs; with bit 1 the hash in the prefix is mended.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "cache/pack_layout.h"
#include "cache/zstd_frame.h"

namespace cache = hipflash::cache;

namespace {

cache::Bytes from_plain_index(cache::ByteView text) {
  const auto zero = std::find(text.begin(), text.end(), 0);
  const auto size = static_cast<std::size_t>(zero - text.begin());
  const cache::Bytes stored = cache::compress(text.first(size), 1);
  const cache::ByteView blobs = text.subspan(std::min(size + 1, text.size()));
  cache::PackPrefix prefix;
  prefix.stored_index_bytes = stored.size();
  prefix.index_bytes = size;
  prefix.file_bytes = cache::kPackPrefixBytes + stored.size() + blobs.size();
  prefix.index_hash = cache::Checksum().update(stored).digest();
  cache::Bytes file = cache::write_prefix(prefix);
  file.insert(file.end(), stored.begin(), stored.end());
  file.insert(file.end(), blobs.begin(), blobs.end());
  return file;
}

void mend_hash(cache::Bytes* file) {
  auto prefix = cache::read_prefix(*file, file->size());
  if (!prefix) return;
  prefix->index_hash = cache::Checksum()
                           .update(cache::ByteView(*file).subspan(cache::kPackPrefixBytes,
                                                                  prefix->stored_index_bytes))
                           .digest();
  const cache::Bytes mended = cache::write_prefix(*prefix);
  std::copy(mended.begin(), mended.end(), file->begin());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  cache::Bytes file(data + 1, data + size);
  if ((data[0] & 1) != 0) file = from_plain_index(file);
  if ((data[0] & 2) != 0) mend_hash(&file);
  const auto opened = cache::Pack::in_memory(file, "fuzzed");
  if (opened.value.has_value() == !opened.reason.empty()) std::abort();
  if (!opened || !(*opened)->verify().empty()) return 0;

  const cache::Pack& pack = **opened;
  cache::PackContent content;
  for (const auto& entry : pack.entries())
    content.entries.push_back({entry.info, *pack.code(entry)});
  for (const auto& one : pack.documents()) content.documents[one.name] = *pack.document(one);
  const cache::Bytes again = cache::encode_pack(std::move(content));
  const auto reopened = cache::Pack::in_memory(again, "again");
  if (!reopened || !(*reopened)->verify().empty()) std::abort();
  if ((*reopened)->entries().size() != pack.entries().size() ||
      (*reopened)->documents().size() != pack.documents().size()) {
    std::abort();
  }
  return 0;
}
