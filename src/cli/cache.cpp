#include <chrono>
#include <ctime>

#include "cli/commands.h"
#include "core/fail.h"
#include "core/settings.h"
#include "hipflash/cache.h"

namespace hipflash::cli {
namespace {

std::string time_text(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  char text[32] = "";
  if (::localtime_r(&time, &local)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

void list(bool json) {
  const std::vector<CacheEntry> entries = user_cache::list();
  std::uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  if (json) {
    Json array = Json::array();
    for (const CacheEntry& entry : entries) {
      array.push_back({{"key", entry.key},
                       {"kernel", entry.family},
                       {"arch", entry.arch},
                       {"label", entry.label},
                       {"bytes", entry.bytes},
                       {"last_used", entry.last_used}});
    }
    print_json({{"path", user_cache::path()}, {"bytes", bytes}, {"entries", array}});
    return;
  }
  std::string text;
  for (const CacheEntry& entry : entries) {
    text += fmt::format("{:.16}  {:>9}  {}  {}  {}  {}\n", entry.key, entry.bytes,
                        time_text(entry.last_used), entry.arch, entry.family, entry.label);
  }
  text += fmt::format("{} entries, {} bytes in {}\n", entries.size(), bytes, user_cache::path());
  print(text);
}

int verify(bool json) {
  const CacheCheck check = user_cache::verify();
  std::vector<std::string> removed, left;
  for (const DamagedEntry& entry : check.damaged) {
    (entry.removed ? removed : left).push_back(entry.key + ": " + entry.reason);
  }
  if (json) {
    print_json({{"removed", removed}, {"left", left}, {"entries", check.whole}});
  } else {
    std::string text;
    for (const std::string& name : removed) text += fmt::format("removed damaged entry {}\n", name);
    for (const std::string& name : left) text += fmt::format("cannot remove damaged {}\n", name);
    print(text + fmt::format("{} entries are whole, {} were damaged\n", check.whole,
                             check.damaged.size()));
  }
  return check.damaged.empty() ? 0 : 1;
}

void report_removed(std::size_t removed, bool json) {
  if (json) {
    print_json({{"removed", removed}});
  } else {
    print(fmt::format("removed {} entries\n", removed));
  }
}

}  // namespace

int manage_cache(const CacheOptions& options) {
  switch (options.action) {
    case CacheAction::list:
      list(options.json);
      return 0;
    case CacheAction::verify:
      return verify(options.json);
    case CacheAction::prune:
      report_removed(user_cache::prune(options.max_bytes.value_or(cache_max_setting())),
                     options.json);
      return 0;
    case CacheAction::clear:
      report_removed(user_cache::clear(), options.json);
      return 0;
    case CacheAction::path:
      break;
  }
  if (options.json) {
    print_json({{"path", user_cache::path()}});
  } else {
    print(user_cache::path() + "\n");
  }
  return 0;
}

}  // namespace hipflash::cli
