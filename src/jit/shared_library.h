// Finding and opening the vendors' compiler libraries, which are never linked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hipflash::jit {

// The path of the first of `names` ("libnvrtc.so.13", ...) that is there, searched as the dynamic
// loader would and then in `more_folders`, but without loading it: loading a compiler costs more
// than a call that finds its code on disk. A library that the program has loaded already comes
// first.
std::string find_library(const std::vector<std::string>& names,
                         const std::vector<std::string>& more_folders);

// What identifies the content of a library: "build-id <hex>" from its ELF notes, else "blake2b
// <hex>" of the whole file. Throws Error(CompileFailed) if it cannot be read.
std::string library_content_id(const std::string& path);

// "6.4.43484" of libhiprtc.so.6.4.43484, symbolic links followed; for people.
std::string library_version(const std::string& path);

class SharedLibrary {
 public:
  // Throws Error(CompileFailed) with the loader's words. Never unloaded: compilers do not survive
  // it.
  explicit SharedLibrary(const std::string& path);

  void* symbol(const char* name) const noexcept;  // null when absent

  // Sets `function` to the symbol; throws Error(CompileFailed) naming it when absent.
  template <class Function>
  void require(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(required(name));
  }

 private:
  void* required(const char* name) const;

  std::string path_;
  void* handle_;
};

}  // namespace hipflash::jit
