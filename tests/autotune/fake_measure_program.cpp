// Stands for hipflash-measure: speeds and faults of configs are written in the environment, so that
// the tuner is seen to survive what no real config may be made to do.
//   FAKE_WRONG, FAKE_CRASH, FAKE_HANG, FAKE_LATE_CRASH: tile_keys of the configs that do so
//   FAKE_FAST: tile_keys of a config that takes half the time
//   FAKE_LOG: a file that gets a line for each problem
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

bool is(const char* name, int tile_keys) {
  const char* const value = std::getenv(name);
  return value && std::atoi(value) == tile_keys;
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

}  // namespace

int main() {
  using Json = nlohmann::ordered_json;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string received;
  std::vector<int> keys;
  int timed = 0;
  for (;;) {
    std::size_t line;
    while ((line = received.find('\n')) == std::string::npos) {
      char block[4096];
      const ssize_t got = ::recv(0, block, sizeof block, 0);
      if (got <= 0) return 0;
      received.append(block, static_cast<std::size_t>(got));
    }
    const Json request = Json::parse(received.substr(0, line));
    received.erase(0, line + 1);
    const std::string what = request.at("do").get<std::string>();
    Json answer = {{"ok", true}};
    if (what == "load") {
      keys.clear();
      if (const char* log = std::getenv("FAKE_LOG")) std::ofstream(log, std::ios::app) << "load\n";
    } else if (what == "try") {
      const int tile_keys = request.at("tile").at("tile_keys").get<int>();
      if (is("FAKE_CRASH", tile_keys)) std::abort();
      if (is("FAKE_HANG", tile_keys)) hang();
      if (is("FAKE_WRONG", tile_keys)) {
        answer = {{"id", -1}, {"fault", "wrong: out[0] is 1, the reference says 2"}};
      } else {
        answer = {{"id", keys.size()}, {"ms", 5.0}};
        keys.push_back(tile_keys);
      }
    } else if (what == "time") {
      const int tile_keys = keys.at(request.at("id").get<std::size_t>());
      if (is("FAKE_LATE_CRASH", tile_keys) && ++timed > 2) std::raise(SIGSEGV);
      answer = {{"ms", is("FAKE_FAST", tile_keys) ? 2.5 : 5.0}};
    }
    const std::string text = answer.dump() + "\n";
    if (::send(0, text.data(), text.size(), MSG_NOSIGNAL) < 0) return 1;
  }
}
