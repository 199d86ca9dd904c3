#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cli/commands.h"
#include "cli/npy.h"
#include "core/fail.h"

namespace hipflash::cli {

DeviceId device_or_default(const std::string& name) {
  return name.empty() ? default_device() : parse_device(name);
}

ContextOptions context_options(int threads) {
  ContextOptions options;
  options.threads = threads;
  return options;
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw FileError(fmt::format("standard output: {}", std::strerror(errno)));
  }
}

void print_json(const Json& json) {
  // Names and paths may hold any bytes; JSON holds UTF-8.
  print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Progress::Progress() {
  const char* const type = std::getenv("TERM");
  terminal_ = ::isatty(STDERR_FILENO) == 1 && !(type && std::string_view(type) == "dumb");
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::show(const std::string& line) {
  if (!terminal_) return;
  shown_ = true;
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
}

double attention_flops(const Problem& problem) {
  const std::int64_t limit = problem.seq_q + problem.seq_k;
  const std::int64_t diagonal =
      problem.alignment == MaskAlignment::bottom_right ? problem.seq_k - problem.seq_q : 0;
  const auto bounded = [limit](std::int64_t side) {
    return side < 0 ? limit : std::min(side, limit);
  };
  const std::int64_t left = bounded(problem.window.left);
  const std::int64_t right = problem.causal ? 0 : bounded(problem.window.right);
  double pairs = 0;
  for (std::int64_t i = 0; i < problem.seq_q; ++i) {
    const std::int64_t first = std::max<std::int64_t>(i + diagonal - left, 0);
    const std::int64_t last = std::min(i + diagonal + right, problem.seq_k - 1);
    if (first <= last) pairs += static_cast<double>(last - first + 1);
  }
  return 2.0 * pairs * static_cast<double>(problem.head_dim + problem.value_head_dim) *
         static_cast<double>(problem.batch) * static_cast<double>(problem.heads_q);
}

}  // namespace hipflash::cli
