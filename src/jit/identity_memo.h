// Remembering what compilers said of themselves, so that a second process need not ask again.
//
// Asking a compiler costs two processes, and hashing a vendor library up to 200 MB of reading: more
// than a whole call that finds its code on disk. What is remembered is found by the device, inode,
// size, modification and change times of the compiler's files. The change time cannot be set by any
// tool, so files that were replaced or reinstalled, even with older times, are asked again. Only
// this shortcut looks at times; the identity itself, and with it the key, is content.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hipflash::jit {

struct Identity {
  std::string identity;     // one line, part of keys
  std::string description;  // one line, for people
};

// What is remembered for these files, else what `ask` says, which is then remembered. `folder` is
// private to the user; an empty or unusable one means asking each time.
Identity remembered_identity(const std::string& folder, const std::vector<std::string>& files,
                             const std::function<Identity()>& ask);

}  // namespace hipflash::jit
