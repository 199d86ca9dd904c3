// Reading and writing packs for the functions of hipflash/pack.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cache/pack_file.h"
#include "hipflash/pack.h"

namespace hipflash::pack {

// Empty path: none. Throws Error(InvalidArgument).
std::optional<cache::SecretKey> read_signing_key(const std::string& path);

// Throws Error(CacheUnusable) naming the file and what is wrong.
std::shared_ptr<const cache::Pack> open_pack(const std::string& path);

Contents contents_of(const cache::Pack& pack);

// For work that takes long before write_pack(). Throws Error(CacheUnusable) where that would.
void require_writable_pack(const std::string& path);

// Replaces the file. Throws Error(CacheUnusable).
Contents write_pack(const std::string& path, cache::PackContent content,
                    const std::optional<cache::SecretKey>& secret);

}  // namespace hipflash::pack
