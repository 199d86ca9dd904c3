// Remembering what compilers said of themselves, so that a second process need not ask again.
//
// Asking a compiler costs two processes, and hashing a vendor library up to 200 MB of reading: more
// than a whole call that finds its code on disk. What is remembered is found by the device, inode,
// size, modification and change times of the compiler's files. The change time cannot be set by any
// tool, so files that were replaced or reinstalled, even with older times, are asked again. Only
// this shortcut looks at times; the identity itself, and with it the key, is content.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hipflash::jit {

struct Identity {
  std::string identity;     // one line, part of keys
  std::string description;  // one line, for people
};

// What stat says of these files now, as text; empty if one is not there.
std::string fingerprint_of(const std::vector<std::string>& files);

// The note on one compiler.
class IdentityMemo {
 public:
  // `folder` is nobody else's to write; with an empty one, or if a file is not there, nothing is
  // remembered. Names count: one program may answer differently by the name it is started by.
  IdentityMemo(const std::string& folder, const std::vector<std::string>& files);

  // Nothing if there is none, or what is there was damaged or somebody else wrote it.
  std::optional<Identity> read() const;
  // Failure to write is no failure: the next process asks again.
  void write(const Identity& identity) const;

 private:
  std::string folder_, path_;  // empty: there is none
};

}  // namespace hipflash::jit
