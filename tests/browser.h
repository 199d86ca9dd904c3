// Opening a page in a headless Chromium.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace hipflash {

inline std::string read_whole(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A browser that starts, or "". (On Ubuntu, chromium-browser may be a stub that asks for snap.)
inline std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "chrome"}) {
    const std::string asks = std::string(name) + " --version 2>/dev/null | grep -q '[0-9]\\.[0-9]'";
    if (std::system(asks.c_str()) == 0) return name;
  }
  return {};
}

struct BrowserPage {
  bool opened = false;
  std::string dom;      // as the browser understood it
  std::string console;  // every message of the page's console, one a line
  std::string words;    // all that the browser said
};

// `profile` is a folder for the browser's files. Paths may hold spaces, no quotes.
inline BrowserPage open_page(const std::string& browser, const std::filesystem::path& page,
                             const std::filesystem::path& profile) {
  const std::string out = profile.string() + ".dom", errors = profile.string() + ".words";
  // No sandbox: it needs a user other than root. No shared memory: containers have little.
  const std::string command =
      "timeout 120 " + browser +
      " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
      "--enable-logging=stderr --v=0 --user-data-dir='" +
      profile.string() + "' --dump-dom 'file://" + page.string() + "' >'" + out + "' 2>'" + errors +
      "'";
  BrowserPage result;
  const int status = std::system(command.c_str());
  result.dom = read_whole(out);
  result.words = read_whole(errors);
  result.opened = status == 0 && result.dom.find("</html>") != std::string::npos;
  std::istringstream lines(result.words);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(":CONSOLE") != std::string::npos) result.console += line + "\n";
  }
  return result;
}

}  // namespace hipflash
