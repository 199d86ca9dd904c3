// The .npy reader on any bytes: an array that fits them, or a FileError.
#include "cli/npy.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(bytes), size);
  try {
    const hipflash::cli::NpyArray array = hipflash::cli::parse_npy(file, "fuzz");
    const auto elements = static_cast<std::uint64_t>(array.elements());
    if (elements * hipflash::cli::size_of(array.type) != array.data.size()) std::abort();
    if (array.data.size() > size) std::abort();
  } catch (const hipflash::cli::FileError&) {
  }
  return 0;
}
