#include "api/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>

#include "cache/io.h"
#include "cache/lock.h"
#include "core/log.h"
#include "core/settings.h"

namespace hipflash::api {
namespace {

namespace io = cache::io;

constexpr std::chrono::seconds kLockWait{2};
const std::string kTornEnd = std::string(kTornMark) + "\n";
constexpr std::size_t kMostOfFile = std::size_t{1} << 28;

// What this process knows of one file.
struct Recording {
  std::unordered_set<std::string> lines;
  bool given_up = false;
};

void give_up(Recording* recording, const std::string& path, const std::string& why) {
  recording->given_up = true;
  log(LogLevel::warn, "HIPFLASH_RECORD=\"{}\" cannot be written: {}", path, why);
}

void append(Recording* recording, const std::string& path, const std::string& line) {
  // Of the file itself, so that nothing is left beside it. Without a lock (on some network file
  // systems) an item may come twice, which readers do not mind.
  const cache::FileLock lock = cache::FileLock::acquire(path, kLockWait);
  io::File file = io::open(path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK, 0644);
  struct stat status {};
  if (!file || ::fstat(file.fd(), &status) != 0) {
    return give_up(recording, path, io::error_text(errno));
  }
  if (!S_ISREG(status.st_mode)) return give_up(recording, path, "it is not a regular file");
  cache::Bytes bytes;
  if (const int error = io::read_up_to(file.fd(), kMostOfFile, bytes); error != 0) {
    return give_up(recording, path, io::error_text(error));
  }
  const std::string content(bytes.begin(), bytes.end());
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = content.find('\n', at);
    if (end == std::string::npos) break;
    recording->lines.insert(content.substr(at, end - at));
    at = end + 1;
  }
  if (recording->lines.contains(line)) return;
  // A writer that was killed left half a line: it gets an end by which readers know it.
  const bool torn = !content.empty() && content.back() != '\n';
  const std::string text = (torn ? kTornEnd : "") + line + "\n";
  const int error =
      io::write_all(file.fd(), {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  if (error != 0) return give_up(recording, path, io::error_text(error));
  recording->lines.insert(line);
}

}  // namespace

void record(const WorkloadItem& item) noexcept {
  try {
    const std::string path = setting("HIPFLASH_RECORD");
    if (path.empty()) return;
    const std::string line = to_json_line(item);
    static std::mutex mutex;
    static auto* const recordings = new std::map<std::string, Recording>;
    const std::scoped_lock guard(mutex);
    Recording& recording = (*recordings)[path];
    if (recording.given_up || recording.lines.contains(line)) return;
    append(&recording, path, line);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "HIPFLASH_RECORD: {}", error.what());
  }
}

}  // namespace hipflash::api
