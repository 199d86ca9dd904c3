#include "cache/zstd_frame.h"

#include <zstd.h>

#include "core/fail.h"

namespace hipflash::cache {

Bytes compress(ByteView bytes, int level) {
  Bytes frame(ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), level);
  if (ZSTD_isError(size) != 0) fail(ErrorCode::Internal, "zstd: {}", ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

Decoded<Bytes> decompress(ByteView frame, std::size_t size) {
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != size ||
      ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return {{}, "a compressed part is not of the stated size"};
  }
  Bytes bytes(size);
  const std::size_t made = ZSTD_decompress(bytes.data(), size, frame.data(), frame.size());
  if (ZSTD_isError(made) != 0) return {{}, fmt::format("zstd: {}", ZSTD_getErrorName(made))};
  if (made != size) return {{}, "a compressed part is not of the stated size"};
  return {std::move(bytes), {}};
}

}  // namespace hipflash::cache
