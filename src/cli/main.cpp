// The `hipflash` command. Exit codes: 0 done, 1 failed, 2 wrong usage.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "cli/commands.h"
#include "core/fail.h"

namespace hipflash::cli {
namespace {

int dispatch(const Options& options) {
  switch (options.command) {
    case Command::run:
      return run_attention(options.run);
    case Command::info:
      return show_info(options.info);
    case Command::explain:
      return explain(options.explain);
    case Command::compile:
      return compile_kernels(options.compile);
    case Command::cache:
      return manage_cache(options.cache);
    case Command::bench:
      return bench(options.bench);
    case Command::inspect:
      return inspect_code(options.inspect);
    case Command::tune:
      return tune_device(options.tune);
    case Command::pack:
      return manage_packs(options.pack);
  }
  fail(ErrorCode::Internal, "{} is no command", to_string(options.command));
}

int complain(const std::string& message, int exit_code) {
  std::fprintf(stderr, "hipflash: %s\n", message.c_str());
  return exit_code;
}

int run(const std::vector<std::string>& arguments) {
  const Parsed parsed = parse_options(arguments);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    if (std::fflush(stdout) != 0) {
      return complain(fmt::format("standard output: {}", std::strerror(errno)), 1);
    }
    return parsed.exit_code;
  }
  try {
    return dispatch(*parsed.options);
  } catch (const Error& error) {
    std::string message = fmt::format("{}: {}", to_string(error.code()), error.what());
    if (!error.log().empty()) message += "\n" + error.log();
    return complain(message, error.code() == ErrorCode::InvalidArgument ? 2 : 1);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", 1);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}

// A standard stream that the caller closed would lend its number to the next file that is opened,
// and what is printed would go into that file. Read-only, so that printing fails instead.
void occupy_closed_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);
  }
}

}  // namespace
}  // namespace hipflash::cli

int main(int argc, char** argv) {
  hipflash::cli::occupy_closed_standard_streams();
  return hipflash::cli::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
