/// \file
/// Bytes as one zstd frame that states its content's size.
#pragma once

#include <cstddef>

#include "cache/entry.h"

namespace hipflash::cache {

/// \throws Error(Internal) when zstd fails.
Bytes compress(ByteView bytes, int level);

/// The content of `frame`, which must be one whole frame of exactly `size` bytes: what a frame
/// claims beyond that is never allocated.
Decoded<Bytes> decompress(ByteView frame, std::size_t size);

}  // namespace hipflash::cache
