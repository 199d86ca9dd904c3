#include "cache/entry_file.h"

#include <fcntl.h>

#include <ctime>

#include "cache/io.h"
#include "cache/trusted_file.h"
#include "core/format.h"

namespace hipflash::cache {
namespace {

// Enough for nearly every header, so that most are read in one call.
constexpr std::size_t kFirstHeaderRead = 16384;
// Writing a time on each use would be most of the cost of a hit.
constexpr std::time_t kTouchSeconds = 60;

template <typename T>
FileRead<T> refuse(Fault fault, std::string reason, const struct stat& status = {}) {
  return {fault, {{}, std::move(reason)}, status};
}

// Opens a file and hands it to `parse`, which returns a Decoded<T> or sets `error`
// to an errno.
template <typename T, typename Parse>
FileRead<T> read_with(const std::filesystem::path& path, Links links, const Parse& parse) {
  const OpenedFile opened = open_trusted(path, links);
  if (opened.fault != Fault::None) return refuse<T>(opened.fault, opened.reason, opened.status);
  const struct stat& status = opened.status;
  if (static_cast<std::uint64_t>(status.st_size) > kMaxFileBytes) {
    return refuse<T>(Fault::Content, fmt::format("it has {} bytes", status.st_size), status);
  }
  int error = 0;
  Decoded<T> decoded = parse(opened.file.fd(), error);
  if (error != 0) return refuse<T>(Fault::System, io::error_text(error), status);
  const Fault fault = decoded ? Fault::None : Fault::Content;
  return {fault, std::move(decoded), status};
}

}  // namespace

FileRead<Entry> read_entry_file(const std::filesystem::path& path, Links links) {
  return read_with<Entry>(path, links, [](int fd, int& error) -> Decoded<Entry> {
    Bytes bytes;
    // One byte more than the cap: a file that grew since fstat must not look complete.
    error = io::read_up_to(fd, kMaxFileBytes + 1, bytes);
    return error == 0 ? decode(bytes) : Decoded<Entry>{};
  });
}

FileRead<EntryHeader> read_entry_header(const std::filesystem::path& path, Links links) {
  return read_with<EntryHeader>(path, links, [](int fd, int& error) -> Decoded<EntryHeader> {
    Bytes bytes;
    error = io::read_up_to(fd, kFirstHeaderRead, bytes);
    if (error != 0) return {};
    Decoded<EntryHeader> header = decode_header(bytes);
    if (header || bytes.size() < kFirstHeaderRead) return header;
    error = io::read_up_to(fd, kPrefixBytes + kMaxHeaderBytes - bytes.size(), bytes);
    return error == 0 ? decode_header(bytes) : Decoded<EntryHeader>{};
  });
}

void touch_entry_file(const std::filesystem::path& path, const struct stat& status) noexcept {
  const std::time_t age = std::time(nullptr) - status.st_mtim.tv_sec;
  // A time in the future (a clock that was set back) would keep the entry for ever.
  if (age >= 0 && age < kTouchSeconds) return;
  const struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  // Failing only makes eviction less exact: a read-only file system, a file of root's.
  (void)utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

}  // namespace hipflash::cache
