// The command line on any words: options, or a text and an exit code of 0 or 2. Never an exception.
#include "cli/options.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes[i] == '\n') {
      words.emplace_back();
    } else if (bytes[i] != 0) {  // an argument cannot hold it
      words.back() += static_cast<char>(bytes[i]);
    }
  }
  const hipflash::cli::Parsed parsed = hipflash::cli::parse_options(words);
  if (!parsed.options &&
      (parsed.text.empty() || (parsed.exit_code != 0 && parsed.exit_code != 2))) {
    std::abort();
  }
  return 0;
}
