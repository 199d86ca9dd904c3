#include "cache/trusted_file.h"

#include <fcntl.h>

#include <cerrno>

#include "cache/directory.h"

namespace hipflash::cache {

OpenedFile open_regular(const std::filesystem::path& path, Links links) {
  const int no_follow = links == Links::Refuse ? O_NOFOLLOW : 0;
  OpenedFile opened;
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  opened.file = io::open(path, O_RDONLY | O_NONBLOCK | no_follow);
  const auto refuse = [&](Fault fault, std::string reason) {
    opened.fault = fault;
    opened.reason = std::move(reason);
    opened.file.close();
  };
  if (!opened.file) {
    const int error = errno;
    if (error == ENOENT) {
      refuse(Fault::Missing, "missing");
    } else if (error == ELOOP) {
      refuse(Fault::Content, "it is a symbolic link");
    } else {
      refuse(Fault::System, io::error_text(error));
    }
  } else if (fstat(opened.file.fd(), &opened.status) != 0) {
    refuse(Fault::System, io::error_text(errno));
  } else if (!S_ISREG(opened.status.st_mode)) {
    refuse(Fault::Content, "it is not a regular file");
  }
  return opened;
}

OpenedFile open_trusted(const std::filesystem::path& path, Links links) {
  OpenedFile opened = open_regular(path, links);
  if (opened.fault != Fault::None) return opened;
  if (const std::string reason = untrusted_reason(opened.status); !reason.empty()) {
    opened.fault = Fault::Content;
    opened.reason = "it " + reason;
    opened.file.close();
  }
  return opened;
}

}  // namespace hipflash::cache
