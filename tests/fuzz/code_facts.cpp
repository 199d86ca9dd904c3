// libFuzzer: whatever the bytes are, the reader of code objects gives facts or throws
// InvalidArgument.
#include <cstdint>
#include <cstdlib>

#include "hipflash/error.h"
#include "jit/code_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto facts =
        hipflash::jit::read_code_facts({reinterpret_cast<const std::byte*>(data), size});
    if (facts.bytes != size) std::abort();
  } catch (const hipflash::Error& error) {
    if (error.code() != hipflash::ErrorCode::InvalidArgument) std::abort();
  }
  return 0;
}
