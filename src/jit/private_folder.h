// Folders for the temporary files of compiles, which do not outlive an interrupted process for
// long.
#pragma once

#include <string>

#include "cache/lock.h"

namespace hipflash::jit {

// A folder that only this user can enter, removed with all it holds by the destructor. Made in
// TMPDIR, else the first of /tmp, /var/tmp and /dev/shm that can be written. The first one of a
// process removes those that killed processes left in the same place.
class PrivateFolder {
 public:
  PrivateFolder();  // throws Error(CompileFailed) if there is no place for it
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();
  const std::string& path() const noexcept { return path_; }

 private:
  bool make_in(const std::string& place);  // false with errno set

  std::string path_;
  cache::FileLock lock_;  // of a file in it, for as long as its process lives
};

// Removes the PrivateFolders of this user in `place` whose processes are gone.
void remove_abandoned_folders(const std::string& place);

}  // namespace hipflash::jit
